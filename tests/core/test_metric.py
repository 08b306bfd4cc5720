"""Metrics as values: fields and options from the signature, keys, spellings, and allowed return values."""

from __future__ import annotations

import math
import random
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.metric import Metric, metric
from mlflow_ragmetrics.core.score import Evidence, Score
from mlflow_ragmetrics.errors import InvalidFieldError, InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.registry import all_metrics


@metric
def brevity(
    answer: str, *, limit: Annotated[int, Field(ge=1)] = 4, unit: Literal["words", "letters"] = "words"
) -> float:
    """Short answers score high."""
    return min(1.0, limit / max(1, len(answer.split() if unit == "words" else answer)))


@metric(thresholds={"conservative": 0.9, "balanced": 0.5, "lenient": 0.1}, key="graded_{level}")
def graded(answer: str, question: str | None = None, *, level: int = 1) -> Score:
    """1.0 if there is a question."""
    return Score(value=float(question is not None), details={"level": level})


def given(returned: Any) -> Metric:
    @metric
    def mine(answer: str) -> Any:
        """Returns ``given``."""
        return returned

    return mine


def test_signature_says_fields_and_options() -> None:
    assert (brevity.definition.required, brevity.definition.optional) == (("answer",), ())
    assert (graded.definition.required, graded.definition.optional) == (("answer",), ("question",))
    assert brevity.definition.own == ("limit", "unit")
    assert brevity.definition.summary == "Short answers score high."
    assert rm.score(brevity, {"answer": "a b c d e f g h"}).value == 0.5
    assert rm.score(brevity, {"answer": "a b c d e f g h"}, limit=8).value == 1.0


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"unit": "lines"}, "unit"),
        ({"size": 1}, "size"),
        ({"threshold": 1.5}, "threshold"),
        ({"threshold": math.nan}, "threshold"),
        ({"preset": "lenient"}, "preset"),
        ({"key": "not a name"}, "key"),
        ({"language": "fr"}, "language"),
        ({"on_missing": "warn"}, "on_missing"),
        ({"aggregate": "vote"}, "aggregate"),
        ({"tolerance": -1}, "tolerance"),
        ({"models": []}, "models"),
    ],
)
def test_options_that_are_refused(options: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        brevity(**options)
    assert (caught.value.param, caught.value.metric) == (param, "brevity")
    assert param in str(caught.value)


def test_an_unknown_option_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidOptionError, match="limit, unit"):
        brevity(size=3)


def test_variants_are_values() -> None:
    assert brevity(limit=2) == brevity(limit=2)
    assert brevity(limit=2) != brevity(limit=3)
    assert len({brevity(limit=2), brevity(limit=2), brevity}) == 2
    assert brevity(limit=2)(unit="letters") == brevity(unit="letters", limit=2)
    assert repr(brevity(unit="letters", limit=2)) == "brevity(limit=2, unit='letters')"
    assert brevity.spelling == "brevity"


def test_keys() -> None:
    assert (brevity(limit=2).key, brevity(key="short").key) == ("brevity", "short")
    assert (graded.key, graded(level=3).key) == ("graded_1", "graded_3")


def test_thresholds() -> None:
    assert (brevity.threshold, brevity(threshold=0.3).threshold) == (None, 0.3)
    levels = [graded(preset=preset).threshold for preset in ("conservative", "balanced", "lenient")]
    assert levels == [0.9, 0.5, 0.1]
    assert graded.threshold == 0.5
    assert graded(preset="lenient", threshold=0.0).threshold == 0.0
    assert rm.score(graded, {"answer": "a", "question": "q"}).passed is True
    assert rm.score(graded, {"answer": "a"}).passed is False
    assert rm.score(brevity, {"answer": "a"}).passed is None


@pytest.mark.parametrize(
    ("returned", "value"), [(0.5, 0.5), (1, 1.0), (True, 1.0), (0, 0.0), (Score(value=0.25), 0.25), (None, None)]
)
def test_what_a_function_may_return(returned: object, value: float | None) -> None:
    score = rm.score(given(returned), {"answer": "a"})
    assert score.value == value
    assert score.status == ("skipped" if value is None else "ok")


@pytest.mark.parametrize("returned", [math.nan, math.inf, "high", [0.5], {}, 1.5, -0.1])
def test_what_it_may_not_return(returned: object) -> None:
    with pytest.raises(rm.RagMetricsError, match="mine"):
        rm.score(given(returned), {"answer": "a"})
    kept = rm.score(given(returned), {"answer": "a"}, on_missing="skip")
    assert (kept.status, kept.value) == ("error", None)


def test_positional_parameters_are_fields() -> None:
    with pytest.raises(InvalidOptionError) as caught:

        @metric
        def mine(text: str) -> float:
            """Uses a field that no sample has."""
            return 1.0

    assert caught.value.param == "text"
    with pytest.raises(InvalidOptionError):
        metric(lambda *answer: 1.0)


def test_missing_and_invalid_fields() -> None:
    for record, error in (({}, MissingFieldError), ({"answer": None}, MissingFieldError)):
        with pytest.raises(error) as caught:
            rm.score(brevity, {"id": "r1", **record})
        assert (caught.value.field, caught.value.metric) == ("answer", "brevity")
        assert "r1" in str(caught.value)
    with pytest.raises(InvalidFieldError) as invalid:
        rm.score(brevity, {"answer": ["a", "b"]})
    assert invalid.value.field == "answer"


def test_on_missing_of_a_metric_beats_the_call() -> None:
    assert rm.score(brevity(on_missing="skip"), {}).status == "skipped"
    assert rm.score(brevity, {}, on_missing="skip").status == "skipped"


def test_a_scaled_metric_is_shown_on_1_to_5() -> None:
    thing = metric(scaled=True)(told_part)
    found = [rm.score(thing, {"answer": "a"}, part=part).scaled for part in (0.0, 0.25, 0.5, 1.0)]
    assert found == [1.0, 2.0, 3.0, 5.0]
    assert rm.score(given(0.5), {"answer": "a"}).scaled is None


def told_part(answer: str, *, part: float = 0.5) -> float:
    return part


@pytest.mark.parametrize("value", [1 + 1e-12, -1e-12])
def test_the_last_bits_beyond_the_range_are_forgiven(value: float) -> None:
    assert rm.score(given(value), {"answer": "a"}).status == "ok"


def test_finish_renders_ids_and_sentences() -> None:
    chunks = [{"id": "doc-a", "text": "It is red."}]
    judge = rm.ScriptedJudge(used_chunks=[1])
    score = rm.score("chunk_precision", {"answer": "Red.", "contexts": chunks}, judge=judge, language="ru")
    assert score.items[0].evidence[0].id == "doc-a"
    assert score.reason.startswith("С ответом связан 1 из 1")


REFERRING = sorted(
    name
    for name, each in all_metrics().items()
    if isinstance(each, Metric) and "reference" in (*each.definition.required, *each.definition.optional)
)
SENTENCES = ["The tower is red.", "The tower is 30 metres high.", "A bridge is green.", "It was built in 1889."]


def drawn_rows(count: int) -> list[dict[str, Any]]:
    """Rows with one accepted answer or several, some without an answer or a reference; the first one has all."""
    draw = random.Random(5)

    def text() -> str:
        return " ".join(draw.sample(SENTENCES, draw.randint(1, 3)))

    rows: list[dict[str, Any]] = []
    for number in range(count):
        reference: Any = [text() for _ in range(1 + number % 3)]
        answer = text() if number % 5 else None
        row = {"id": str(number), "question": "What is red?", "answer": answer, "contexts": [text(), text()]}
        rows.append({**row, "reference": reference if number % 7 else None})
    return [{**rows[1], "id": "all", "answer": text()}, *rows]


@pytest.mark.parametrize("name", REFERRING)
def test_a_row_scores_alone_as_among_others_and_against_several_references_as_against_the_best(name: str) -> None:
    rows = drawn_rows(11)
    metric = all_metrics()[name]
    assert isinstance(metric, Metric)
    best = min if metric.definition.higher_is_better is False else max
    for row, together in zip(rows, rm.Suite([metric]).evaluate(rows, progress=False).rows, strict=True):
        alone = rm.score(metric, row, on_missing="skip")
        found = together.scores[metric.key]
        assert (found.status, found.value, found.details) == (alone.status, alone.value, alone.details)
        each = [rm.score(metric, {**row, "reference": one}, on_missing="skip").value for one in row["reference"] or ()]
        if row["reference"] and None not in each:
            assert found.value == best(each)


def test_a_metric_has_defaults_and_its_class_a_docstring() -> None:
    facts = brevity.definition
    assert (facts.range, facts.scaled, facts.higher_is_better, facts.asks) == ((0.0, 1.0), False, True, ())
    assert (facts.source, facts.aliases, facts.key, facts.key_pattern) == ("", (), None, None)
    assert (facts.name, facts.levels, graded.definition.levels["lenient"]) == ("brevity", None, 0.1)
    assert Metric.__doc__.startswith("A ``definition`` with the options ``given``.")
    assert brevity.__doc__.startswith("Short answers score high.")
    named = metric(name="short", asks=("embeddings",))(told_part)
    assert (named.name, named.key, named.definition.asks) == ("short", "short", ("embeddings",))


def test_metrics_of_one_spelling_and_different_definitions_differ() -> None:
    other = metric(name="brevity")(told_part)
    assert brevity != other
    assert brevity != "brevity"
    assert hash(brevity) == hash(other) != hash(brevity(limit=2))


def test_a_metric_that_may_have_no_contexts_needs_the_field_until_you_say_what_it_means() -> None:
    @metric
    def fair(answer: str, contexts: list[str] | None = None, *, no_context: float | None = None) -> float:
        """Uses contexts if there are any."""
        return 1.0 if contexts else no_context or 0.5

    assert (fair.required, fair(no_context=0.25).required) == (("answer", "contexts"), ("answer",))
    rows = rm.Suite([fair, fair(no_context=0.25, key="told")]).evaluate([{"answer": "a"}, {"contexts": []}]).rows
    assert [row.scores["told"].value for row in rows] == [0.25, None]
    without_contexts, without_answer = (row.scores["fair"].reason for row in rows)
    assert without_contexts.endswith("; use [] if nothing was retrieved, or set no_context= to score such rows")
    assert "fair needs the field 'answer', which is missing" in without_answer
    assert "no_context" not in without_answer


def test_a_key_is_an_identifier_made_of_options_or_by_a_function() -> None:
    def size(answer: str, *, limit: float = 1) -> float:
        """One."""
        return 1.0

    assert metric(key=lambda options: f"size_{options.limit:.0f}")(size)(limit=3).key == "size_3"
    with pytest.raises(InvalidOptionError, match=r"size: key 'size_1\.5' must be a Python identifier") as caught:
        metric(key="size_{limit}")(size)(limit=1.5)
    assert (caught.value.param, caught.value.metric) == ("key", "size")


@pytest.mark.parametrize(
    ("low", "high", "value", "status"),
    [
        (-1, 2, 2.0, "ok"),
        (-1, 2, -1.0, "ok"),
        (-1, 2, 2.01, "error"),
        (-1, 2, -1.01, "error"),
        (0, 1, 1 + 1e-8, "error"),
    ],
)
def test_a_value_lies_within_the_range(low: float, high: float, value: float, status: str) -> None:
    def of(answer: str, *, value: float = 0.0) -> float:
        """The option."""
        return value

    score = rm.score(metric(range=(low, high))(of), {"answer": "a"}, value=value, on_missing="skip")
    assert score.status == status
    if status == "error":
        assert score.error.endswith(f"of: the score {value!r} is outside the metric's range, {low} to {high}")


@pytest.mark.parametrize(
    ("answer", "assumed", "judge", "value", "codes"),
    [
        ("It is red.", None, "lexical", 0.5, []),
        ("It is red.", "no_model_call", "lexical", 0.5, ["contexts_assumed"]),
        ("It is red.", "no_model_call", None, None, []),
        ("これは赤いです。とても赤いです。", None, "lexical", 0.5, ["language_unknown"]),
        ("これは赤いです。とても赤いです。", None, "other", 0.5, []),
        ("これは赤いです。とても赤いです。", None, "lexical", None, []),
    ],
)
def test_a_score_warns_of_assumed_contexts_and_of_languages_without_rules(
    answer: str, assumed: str | None, judge: str | None, value: float | None, codes: list[str]
) -> None:
    @metric
    def fixed(answer: str, contexts: list[str]) -> Score:
        """A fixed score with a warning of its own."""
        return Score(value, judge=judge, warnings=(("own", "Own."),))

    sample = {"answer": answer, "contexts": ["It is red."], "metadata": {"contexts_assumed": assumed}}
    assert [code for code, _ in rm.score(fixed, sample).warnings] == ["own", *codes]
    assert rm.score(metric(name="bare")(lambda answer: Score(0.5)), sample).warnings == ()


@pytest.mark.parametrize(
    ("details", "options", "measured"),
    [
        ({}, {}, True),
        ({"rule": "no_claims"}, {}, False),
        ({"rule": "other"}, {}, True),
        ({"unmeasured": "why not"}, {}, False),
        ({"no_context": True}, {}, False),
        ({"no_context": True}, {"no_context": 0.5}, True),
        ({"rule": "no_claims"}, {"no_context": 0.5}, False),
    ],
)
def test_a_value_by_a_rule_counts_as_measured_only_if_the_rule_was_asked_for(
    details: dict[str, Any], options: dict[str, Any], measured: bool
) -> None:
    @metric
    def ruled(answer: str, contexts: list[str], *, no_context: float | None = None) -> Score:
        """A score with these details."""
        return Score(0.5, details=details)

    score = rm.score(ruled, {"answer": "a", "contexts": []}, **options)
    assert (score.value, score.measured) == (0.5, measured)
    assert bool(score.details.get("unmeasured")) is not measured


def test_one_score_that_a_metric_returns_for_several_samples_is_finished_for_each() -> None:
    always = rm.Score(value=0.5, items=(rm.Item("chunk", "a", evidence=(Evidence(1),)),))

    @rm.metric
    def constant(contexts: list[str]) -> rm.Score:
        return always

    rows = [{"contexts": [{"text": "a", "id": name}]} for name in ("x", "y")]
    found = [row.scores["constant"].items[0].evidence[0].id for row in rm.Suite([constant]).stream(rows)]
    assert found == ["x", "y"]
