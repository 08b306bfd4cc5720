"""The line to a chat model: one request, structured where the model can, within the time allowed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mlflow_ragmetrics.judges.isolation import run_apart
from mlflow_ragmetrics.judges.retry import status_of

__all__ = ["Line", "Turn"]

Turn = tuple[str, str]
"""Who speaks (``"system"``, ``"human"``, ``"ai"``) and what is said: a message as LangChain takes it."""

_UNSUITED = {400, 404, 415, 422, 501}
_UNKNOWN_ARGUMENT = (TypeError, NotImplementedError, ValueError)


@dataclass
class Line:
    """Sends turns to ``model``, a LangChain chat model, with ``options`` as arguments of the call.

    A model that rejects structured output is asked without it, from then on.
    """

    model: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    timeout: float | None = 60.0
    trace: bool = False
    structured: bool = True
    _bound: dict[str, Any] = field(default_factory=dict)

    def send(self, turns: Sequence[Turn], schema: Mapping[str, Any], **options: Any) -> Any:
        """The model's message; raises whatever the client raises, or the ``JudgeError`` of a timeout."""
        arguments = {**self.options, **options}
        bound = self._bound_to(schema) if self.structured else None
        if bound is None:
            return self._invoke(self.model, turns, arguments)
        try:
            return self._invoke(bound, turns, arguments)
        except Exception as error:
            if status_of(error) not in _UNSUITED:
                raise
        message = self._invoke(self.model, turns, arguments)
        self.structured = False
        return message

    def _invoke(self, model: Any, turns: Sequence[Turn], arguments: Mapping[str, Any]) -> Any:
        config = {"callbacks": [], "run_name": "ragmetrics judge"}
        call = partial(model.invoke, list(turns), config=None if self.trace else config, **arguments)
        return run_apart(call, self.timeout, trace=self.trace)

    def _bound_to(self, schema: Mapping[str, Any]) -> Any:
        key = ",".join(schema["properties"])
        if key not in self._bound:
            self._bound[key] = _with_structure(self.model, schema)
        return self._bound[key]


def _with_structure(model: Any, schema: Mapping[str, Any]) -> Any:
    """The model bound to reply in the schema's form, without LangChain's parser behind it; ``None`` if it cannot."""
    try:
        accepted = inspect.signature(model.with_structured_output).parameters
        strict = {"strict": True} if "strict" in accepted else {}
        first = getattr(model.with_structured_output(dict(schema), **strict), "first", None)
    except _UNKNOWN_ARGUMENT:
        return None
    return first if hasattr(first, "bound") and hasattr(first, "invoke") else None
