"""A name means what people expect, and a misspelt name gets a suggestion."""

from __future__ import annotations

import inspect
import pickle
import re
import traceback
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError, RagMetricsError
from mlflow_ragmetrics.registry import metric_of

ROW: dict[str, Any] = {"answer": "Anna.", "reference": "Anna."}
MIGRATING = Path(__file__).parents[1] / "docs" / "metrics" / "migrating.md"


@pytest.mark.parametrize(
    "name", ["hallucination", "Groundedness", "HallucinationMetric", "relevance", "f1", "Precision", "recall"]
)
def test_words_that_mean_several_metrics_are_refused_with_the_candidates(name: str) -> None:
    with pytest.raises(InvalidOptionError, match="is ambiguous; use one of these: ") as caught:
        metric_of(name)
    for candidate in str(caught.value).partition("use one of these: ")[2].split(", "):
        assert metric_of(candidate).key == candidate


def test_every_name_of_the_page_on_migrating_leads_where_it_says() -> None:
    found = re.findall(r"^\| `(\w+)(?:\([^`]*)?` \| `([^`]+)`", MIGRATING.read_text(encoding="utf-8"), re.MULTILINE)
    named = [(name, here) for name, here in found if re.match("[A-Z]", name) and name != "HallucinationMetric"]
    assert len(named) >= 12
    for name, here in named:
        assert metric_of(name).name == metric_of(here.partition("(")[0]).name, name


def test_recall_without_ids_is_named_where_the_ids_are_missing() -> None:
    with pytest.raises(MissingFieldError, match=re.escape('fact_recall(target="reference")')):
        rm.evaluate([{**ROW, "contexts": ["Anna."]}], ["context_recall"])


@pytest.mark.parametrize("name", ["white-paper", "White Paper", "WHITE_PAPER"])
def test_a_preset_is_found_in_other_spellings(name: str) -> None:
    assert rm.Suite.of(name).keys == rm.Suite.preset(name).keys == rm.Suite.preset("white_paper").keys
    assert set(rm.Suite.of({"preset": name}).keys) == set(rm.Suite.preset("white_paper").keys)


def test_a_misspelt_preset_is_answered_with_the_near_one() -> None:
    with pytest.raises(InvalidOptionError, match="did you mean 'white_paper'"):
        rm.evaluate([ROW], "white_papr")


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: rm.score("rouge", ROW, mesure="recall"), "measure"),
        (lambda: rm.score("rouge", ROW, jugde="lexical"), "judge"),
        (lambda: rm.Suite(["rouge"], weigths={}), "weights"),  # type: ignore[call-arg]
        (lambda: rm.ChatJudge("openai:/gpt-4o-mini", promts="x"), "prompts"),  # type: ignore[call-arg]
    ],
)
def test_a_misspelt_keyword_is_answered_with_the_near_one(call: Any, meant: str) -> None:
    with pytest.raises((InvalidOptionError, TypeError), match=f"; did you mean '{meant}'"):
        call()


FUNCTIONS = [name for name in rm.__all__ if inspect.isfunction(getattr(rm, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_answers_a_misspelt_keyword(name: str) -> None:
    function = getattr(rm, name)
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters) or inspect.iscoroutinefunction(function):
        return
    for each in parameters:
        if each.kind is not each.POSITIONAL_ONLY and len(each.name) > 3:
            with pytest.raises(TypeError, match=f"did you mean '{each.name}'"):
                function(**{each.name[:-1] + each.name[-1] * 2: None})


def test_a_function_under_its_public_name_is_still_the_function() -> None:
    assert pickle.loads(pickle.dumps(rm.score)) is rm.score
    assert "on_missing" in inspect.signature(rm.score).parameters


@pytest.mark.parametrize(
    "call",
    [
        lambda: rm.evaluate([{"answer": "Anna."}], ["faithfulness"]),
        lambda: rm.score("faithfulness", {"contexts": ["Anna."]}),
        lambda: rm.score("nonsense", ROW),
        lambda: rm.evaluate([ROW], ["correctness"], judge=rm.ScriptedJudge(error="down")).check(correctness=0.5),
    ],
)
def test_an_error_is_one_short_traceback(call: Any) -> None:
    try:
        call()
    except RagMetricsError as error:
        shown = "".join(traceback.format_exception(error))
        frames = traceback.extract_tb(error.__traceback__)
    assert len(frames) <= 3 + ("check" in shown)
    assert "engine" not in shown
    assert "During handling" not in shown
    assert "direct cause" not in shown


@pytest.mark.parametrize("uri", ["opnai:/gpt-4o-mini", "lancghain:/x", "evil-pkg:/x"])
def test_a_misspelt_provider_never_becomes_a_package_to_install(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"judge .{uri}. cannot be created: Unsupported") as caught:
        rm.Suite(["faithfulness"], judge=uri)
    assert "install" not in str(caught.value)
    assert " openai, " in str(caught.value)
