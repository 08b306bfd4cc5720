"""The JSON Schema of ``suite.yaml``, for completion and checks in editors."""

from __future__ import annotations

import json
from typing import Any

from mlflow_ragmetrics.registry import all_metrics
from mlflow_ragmetrics.selection import PRESETS
from mlflow_ragmetrics.suite_file import SuiteSettings


def suite_schema() -> dict[str, Any]:
    """Return the JSON Schema of a suite's file, for completion and checks in editors.

    It extends the schema of the pydantic model with the short forms: a judge or an embedding model may be one name, and
    ``retry`` accepts names for YAML and for Python.
    """
    schema: dict[str, Any] = SuiteSettings.model_json_schema()
    keys = schema["properties"]
    for key, definition in (("judges", "JudgeSettings"), ("embeddings", "EmbeddingSettings")):
        one = {"anyOf": [{"type": "string"}, {"$ref": f"#/$defs/{definition}"}]}
        several = {"type": "array", "items": one, "minItems": 1}
        keys[key] = {"anyOf": [*one["anyOf"], several], "title": key.title()}
    keys["by"] = {"anyOf": [{"type": "string"}, keys["by"]], "title": "By"}
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
    """Return the schema as the text of a file."""
    return json.dumps(suite_schema(), indent=2, ensure_ascii=False) + "\n"
