"""What is known of a metric before any option is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, SupportsIndex, Union

from pydantic import BaseModel

__all__ = ["Asks", "Definition", "Key"]

Asks = Literal["judge", "embeddings"]
Key = Union[str, Callable[[BaseModel], str]]


@dataclass(frozen=True)
class Definition:
    """A metric's function with the facts about it.

    ``required`` and ``optional`` name sample fields; ``asks`` whom the program asks; ``range`` bounds the raw value;
    ``levels`` maps conservative, balanced and lenient to thresholds; ``scaled`` adds the 1–5 value; ``key`` is a
    template over the options (or a function of them), and ``key_pattern`` reads such a key back.
    """

    name: str
    function: Callable[..., Any]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    options: type[BaseModel]
    asks: tuple[Asks, ...] = ()
    range: tuple[float, float] = (0.0, 1.0)
    levels: Mapping[str, float] | None = None
    scaled: bool = False
    seed: str = ""
    aliases: tuple[str, ...] = ()
    key: Key | None = None
    key_pattern: str | None = None

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """By the name of its metric, under which the function itself cannot be found any more."""
        place = (self.function.__module__, self.function.__qualname__)
        return (_definition_at, place) if _definition_at(*place) is self else super().__reduce_ex__(protocol)


def _definition_at(module: str, name: str) -> Definition | None:
    found: Definition | None = getattr(getattr(import_module(module), name, None), "definition", None)
    return found
