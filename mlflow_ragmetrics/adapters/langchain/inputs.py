"""A question in the shape that a chain takes: text, a dict, or messages, told by the chain's input schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.runnables import Runnable

from mlflow_ragmetrics.core.aliases import ALIASES
from mlflow_ragmetrics.core.sample import Sample

__all__ = ["input_maker"]

_KEYS = ("question", "query", "input", *ALIASES["question"])
_MESSAGES = "messages"


def input_maker(chain: Runnable[Any, Any], input_key: str | None = None) -> Callable[[Sample], Any]:
    """What makes the chain's input out of a sample.

    With ``input_key``: a dict with the question under it. Else a dict where the chain's input schema has a name for
    questions (further names that the schema has are filled from the sample's metadata), ``{"messages": […]}`` where
    it has messages, and the bare question otherwise.
    """
    names = _names(chain)
    if input_key is None:
        input_key = next((key for key in _KEYS if key in names), None)
    if input_key is None and _MESSAGES in names:
        input_key = _MESSAGES
    if input_key is None and len(names) == 1:
        input_key = next(iter(names))
    if input_key is None:
        return lambda sample: sample.question or ""
    return lambda sample: {**_further(sample, names), input_key: _asked(sample, input_key)}


def _asked(sample: Sample, key: str) -> Any:
    question = sample.question or ""
    return [{"role": "user", "content": question}] if key == _MESSAGES else question


def _further(sample: Sample, names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sample.metadata.items() if name in names}


def _names(chain: Runnable[Any, Any]) -> Mapping[str, Any]:
    try:
        schema = chain.get_input_jsonschema()
    except (TypeError, ValueError, AttributeError, RuntimeError):  # input types that have no schema
        channels = getattr(chain, "channels", None)  # a LangGraph graph has its state's names here all the same
        return channels if isinstance(channels, Mapping) else {}
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) and schema.get("type") == "object" else {}
