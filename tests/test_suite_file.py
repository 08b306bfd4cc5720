from __future__ import annotations

from pathlib import Path

import pytest

from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.suite import Suite
from mlflow_ragmetrics.suite_file import suite_arguments

KEYED = """
preset: lexical
judges:
  - model: openai:/some-model
    api_key: ${SUITE_TEST_KEY}
"""


@pytest.fixture
def suite_file(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "suite.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_metrics_options_weights_and_thresholds_are_read(suite_file):
    path = suite_file(
        "metrics: [faithfulness, {rouge: {rouge_type: rougeL}}, ndcg_5]\n"
        "weights: {faithfulness: 3, rougeL_f1: 1}\nthresholds: {faithfulness: 0.9}\nlanguage: ru\nname_prefix: rag_\n"
    )
    suite = Suite.from_yaml(path)
    assert suite.keys == ["rag_faithfulness", "rag_rougeL_f1", "rag_ndcg_5", "rag_composite"]
    assert suite.metrics[0].threshold == 0.9
    assert suite.language == "ru"
    assert dict(suite.composites[0].weights) == {"faithfulness": 3, "rougeL_f1": 1}


def test_overrides_beat_the_file(suite_file):
    path = suite_file("preset: lexical\nlanguage: ru\nthresholds: lenient\n")
    suite = Suite.from_yaml(path, metrics=["rouge"], language="en", thresholds=None)
    assert suite.keys == ["rouge1_f1"]
    assert suite.language == "en"


def test_a_preset_keeps_its_name(suite_file):
    assert Suite.from_yaml(suite_file("preset: lexical")).describe()["suite"] == "lexical"


def test_paths_start_at_the_file_s_folder(suite_file):
    path = suite_file("preset: lexical\ncache: judge.sqlite\n")
    assert suite_arguments(path)["cache"] == path.parent / "judge.sqlite"


def test_shared_call_options_reach_the_suite(suite_file):
    path = suite_file(
        "preset: lexical\ncalls: compact\nrate_limit: {requests_per_minute: 60}\n"
        "retry: {on_http_codes: [429, 5xx], initial: 1, max: 9, attempts: 3}\n"
    )
    arguments = suite_arguments(path)
    assert arguments["calls"] == "compact"
    assert arguments["requests_per_minute"] == 60
    assert arguments["retry"] == {"codes": (429,), "initial": 1.0, "longest": 9.0, "attempts": 3}


def test_a_variable_that_is_not_set_is_named_only_when_it_is_needed(suite_file, monkeypatch):
    monkeypatch.delenv("SUITE_TEST_KEY", raising=False)
    path = suite_file(KEYED)
    with pytest.raises(InvalidOptionError, match="SUITE_TEST_KEY, which is not set"):
        Suite.from_yaml(path)
    assert Suite.from_yaml(path, judge="lexical").describe()["judge"] == ["lexical"]


@pytest.mark.parametrize(
    ("text", "said", "param"),
    [
        ("preset: lexical\nfoo: 1", "foo: there is no such key", "foo"),
        (
            "preset: lexical\njudges: [{model: lexical, temprature: 1}]",
            "judges.0.temprature: there is no",
            "temprature",
        ),
        ("preset: lexical\nretry: {attempts: 0}", "retry.attempts: ", "attempts"),
        ("preset: lexical\nretry: {atempts: 1}", "retry.atempts: there is no such key", "atempts"),
        ("preset: lexical\nrate_limit: {requests: 1}", "rate_limit.requests: there is no such key", "requests"),
        ("preset: lexical\nembeddings: [{model: char-ngram, dims: 3}]", "embeddings.0.dims: there is no", "dims"),
        ("preset: lexical\njudges: []", "judges: ", "judges"),
        ("preset: lexical\njudges: [{model: 'openai:/x', api_key: sk-secret}]", "an environment variable", "api_key"),
        ("preset: lexical\nmetrics: [rouge]", "either preset or metrics", "suite"),
        ("language: en", "either preset or metrics", "suite"),
    ],
)
def test_what_the_file_may_not_say_is_named(suite_file, text, said, param):
    with pytest.raises(InvalidOptionError) as caught:
        suite_arguments(suite_file(text))
    assert said in str(caught.value)
    assert "suite.yaml" in str(caught.value)
    assert "sk-secret" not in str(caught.value)
    assert caught.value.param == param


@pytest.mark.parametrize("text", ["- a list", "a: [", "just text", "1: 2", ""])
def test_a_file_that_is_no_mapping_is_refused(suite_file, text):
    with pytest.raises(InvalidDataError, match=r"suite\.yaml"):
        suite_arguments(suite_file(text))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidDataError, match=r"nothing\.yaml"):
        suite_arguments(tmp_path / "nothing.yaml")


@pytest.mark.parametrize("kind", ["judges", "embeddings"])
def test_built_in_models_take_no_options(suite_file, kind):
    model = {"judges": "lexical", "embeddings": "char-ngram"}[kind]
    with pytest.raises(RagMetricsError, match="takes no base_url"):
        suite_arguments(suite_file(f"preset: lexical\n{kind}: {{model: {model}, base_url: http://x}}"))


KEYED_MODELS = """
preset: white_paper
embeddings: {model: "openai:/some-embedding", dimensions: 64, api_key: "${SUITE_TEST_KEY}"}
retry: {attempts: 2}
judges:
  - {model: "openai:/first", api_key: "${SUITE_TEST_KEY}", base_url: "http://127.0.0.1:9/v1", temperature: 0.5}
  - {model: "openai:/second", name: other, api_key: "${SUITE_TEST_KEY}", rate_limit: {requests_per_minute: 9}}
"""


def test_keys_come_from_the_environment_and_go_nowhere_else(suite_file, monkeypatch):
    monkeypatch.setenv("SUITE_TEST_KEY", "key-of-the-test-suite")
    suite = Suite.from_yaml(suite_file(KEYED_MODELS))
    described = suite.describe()
    assert described["judge"] == ["openai:/first", "other"]
    assert described["embeddings"] == ["openai:/some-embedding"]
    assert "key-of-the-test-suite" not in repr(described)
    first = suite.judges[0].model
    assert first.openai_api_key.get_secret_value() == "key-of-the-test-suite"
    assert first.temperature == 0.5
    assert suite.embeddings[0].model.dimensions == 64


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("metrics: [rouge]\njudges: [lexical]\nmetrics: [coherence]\n")
    with pytest.raises(InvalidDataError, match="the key 'metrics' is given twice"):
        Suite.from_yaml(path)
