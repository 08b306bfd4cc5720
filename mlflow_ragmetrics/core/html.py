"""HTML from the package's Jinja templates; every text is escaped, so none of the data can become markup."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from mlflow_ragmetrics.core.json_text import plain_text

if TYPE_CHECKING:
    from jinja2 import Environment

_Function = TypeVar("_Function", bound=Callable[..., object])
_functions: dict[str, Callable[..., object]] = {"zip": zip}


def usable_in_templates(function: _Function) -> _Function:
    """Every template may call ``function`` by its name."""
    _functions[function.__name__] = function
    return function


def render(template: str, **values: Any) -> str:
    """The template at this path in the package, such as ``report/report.html``, filled in with ``values``."""
    return _environment().get_template(template).render(values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # on first use: importing the package stays fast

    def storable(value: object) -> object:
        return value if hasattr(value, "__html__") else plain_text(str(value))  # markup is escaped and clean already

    def source(name: str) -> str:
        """A file of the package as it is, such as a style sheet."""
        return loader.get_source(environment, name)[0]

    loader = PackageLoader("mlflow_ragmetrics", ".")
    environment = Environment(
        loader=loader,
        autoescape=True,
        auto_reload=False,
        finalize=storable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(_functions, source=source)
    return environment
