"""The JSON Schema agrees with the settings."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from making.suite_schema import suite_schema

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.suite_file import SuiteSettings


def test_the_schema_has_every_key_and_takes_what_the_settings_take() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = suite_schema()
    assert set(schema["properties"]) == set(SuiteSettings.model_fields)
    jsonschema.Draft202012Validator.check_schema(schema)
    template = (Path(rm.__file__).parent / "cli" / "suite.yaml").read_text(encoding="utf-8")
    whole = {
        "metrics": ["faithfulness", {"ndcg": {"k": 5}}],
        "judges": ["lexical", {"model": "openai:/gpt-4o-mini", "temperature": 0, "api_key": "${OPENAI_API_KEY}"}],
        "embeddings": "char-ngram",
        "retry": {"on_http_codes": [429, "5xx"], "max": 30},
        "thresholds": "balanced",
    }
    for suite in (yaml.safe_load(template), whole, {"preset": "full", "judges": "lexical"}):
        SuiteSettings(**suite)
        jsonschema.validate(suite, schema)
    for wrong in (
        {"preset": "full", "metrics": ["rouge"]},
        {"preset": "full", "metric": []},
        {"preset": "x", "judges": 3},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
