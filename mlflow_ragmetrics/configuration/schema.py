"""The JSON Schema of a suite's file, with which editors complete and check its keys."""

from __future__ import annotations

import json
from typing import Any

from mlflow_ragmetrics.configuration.settings import SuiteSettings
from mlflow_ragmetrics.registry import all_metrics
from mlflow_ragmetrics.selection import PRESETS

__all__ = ["suite_schema", "suite_schema_text"]


def suite_schema() -> dict[str, Any]:
    """The schema of the pydantic model, with the short forms that the model reads before it checks.

    A judge or an embedding model may be one name, and ``retry`` has names for YAML beside those for Python.
    """
    schema: dict[str, Any] = SuiteSettings.model_json_schema()
    keys = schema["properties"]
    for key, definition in (("judges", "JudgeSettings"), ("embeddings", "EmbeddingSettings")):
        one = {"anyOf": [{"type": "string"}, {"$ref": f"#/$defs/{definition}"}]}
        several = {"type": "array", "items": one, "minItems": 1}
        keys[key] = {"anyOf": [*one["anyOf"], several], "title": key.title()}
    keys["preset"]["examples"] = list(PRESETS)
    keys["metrics"]["examples"] = [list(all_metrics())]
    retry = schema["$defs"]["RetryOptions"]["properties"]
    for name, written in (("longest", "max"), ("codes", "on_http_codes")):
        retry[name] = retry[written] = retry.pop(name, None) or retry.pop(written)
    code = {"anyOf": [{"type": "integer"}, {"const": "5xx"}]}
    retry["codes"] = retry["on_http_codes"] = {**retry["codes"], "items": code}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "A suite of mlflow_ragmetrics",
        "oneOf": [{"required": ["preset"]}, {"required": ["metrics"]}],
    }


def suite_schema_text() -> str:
    """The schema as a file."""
    return json.dumps(suite_schema(), indent=2, ensure_ascii=False) + "\n"
