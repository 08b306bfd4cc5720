"""A suite's metrics: keys, weights and thresholds."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.selection import PRESETS, select


def test_equal_keys_are_refused_naming_both() -> None:
    with pytest.raises(InvalidOptionError, match=r"rouge and rouge\(stemmer=True.*rouge1_f1"):
        select(["rouge", "rouge(stemmer=True, tokenizer='rouge_score')"])
    keys = [metric.key for metric in select(["rouge", "rouge(stemmer=True, key='stemmed')"]).metrics]
    assert keys == ["rouge1_f1", "stemmed"]


def test_a_composite_brings_its_components() -> None:
    chosen = select(["rag_score"])
    assert [metric.key for metric in chosen.metrics] == [
        "correctness",
        "faithfulness",
        "chunk_precision",
        "fact_recall",
        "answer_relevance",
    ]
    assert chosen.composites[0].scaled


def test_weights_without_a_composite_make_one() -> None:
    chosen = select(["faithfulness", "rouge"], weights={"faithfulness": 3, "rouge1_f1": 1})
    assert chosen.composites[0].key == "composite"
    assert chosen.describe()["weights"] == {"composite": {"faithfulness": 3.0, "rouge1_f1": 1.0}}


@pytest.mark.parametrize("weights", [{"faithfulness": -1}, {"faithfulness": 0}, {"faithfulness": "2"}, {"nothing": 1}])
def test_bad_weights(weights: dict[str, object]) -> None:
    with pytest.raises(rm.RagMetricsError, match=r"nothing|weight"):
        select(["faithfulness"], weights=weights)  # type: ignore[arg-type]


def test_thresholds_by_preset_and_by_key() -> None:
    chosen = select(PRESETS["lexical"], thresholds="conservative")
    assert {m.key: m.threshold for m in chosen.metrics} == {
        "rouge1_f1": None,
        "lexical_groundedness": 0.85,
        "lexical_factuality": 0.90,
        "lexical_relevance": 0.75,
        "coherence": 0.85,
        "content_safety": 0.95,
    }
    mixed = select(["coherence(threshold=0.2)", "content_safety"], thresholds="lenient")
    assert [m.threshold for m in mixed.metrics] == [0.2, 0.80]
    assert select(["rouge"], thresholds={"rouge1_f1": 0.3}).metrics[0].threshold == 0.3
    with pytest.raises(InvalidOptionError, match="strict"):
        select(["rouge"], thresholds="strict")
    with pytest.raises(InvalidOptionError, match="rouge2_f1"):
        select(["rouge"], thresholds={"rouge2_f1": 0.3})
    with pytest.raises(InvalidOptionError) as caught:
        select(["rouge"], thresholds={"rouge1_f1": 1.3})
    assert caught.value.param == "threshold"


def test_a_preset_for_a_metric_says_where_presets_go() -> None:
    with pytest.raises(rm.RagMetricsError, match=r"'white_paper' is a preset; use Suite\.preset\('white_paper'\)"):
        rm.Suite("White-Paper")


def test_an_empty_suite_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="no metric"):
        select([])


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_resolve(name: str) -> None:
    chosen = select(PRESETS[name])
    assert len({m.key for m in chosen.metrics}) == len(chosen.metrics) > 2


BLURBS = [
    {
        "question": "What?",
        "answer": "It is red.",
        "score": 1,
        "note": "a short note",
        "blurbs": ["It is red, they say."],
    },
    {"question": "Who?", "answer": "It was Bob.", "score": 2, "note": "another note", "blurbs": ["Bob did it again."]},
]


@pytest.mark.parametrize(
    ("columns", "likely"),
    [
        ({"generated_by_us": "a"}, "generated_by_us"),
        ({"note": "a", "Respnse": "b"}, "Respnse"),
        ({"gt_text": "a"}, None),
        ({"gold_text": "a", "note": "b"}, None),
        ({"our_output": 3}, None),
    ],
)
def test_a_missing_answer_names_its_likely_column(columns: dict[str, object], likely: str | None) -> None:
    with pytest.raises(MissingFieldError) as caught:
        rm.evaluate([{"question": "Why?", **columns}], ["coherence"])
    assert f"--columns answer={likely or 'COLUMN'} (unused columns: {likely or next(iter(columns))}" in str(
        caught.value
    )


def test_a_key_too_long_for_mlflow_is_refused_at_once() -> None:
    with pytest.raises(InvalidOptionError, match="too long for MLflow"):
        rm.Suite([rm.coherence(key="k" * 201)])


def test_contexts_in_no_row_are_an_error_that_names_the_likeliest_column() -> None:
    with pytest.raises(MissingFieldError) as caught:
        rm.Suite(["faithfulness"]).evaluate(BLURBS, progress=False)
    said = str(caught.value)
    assert "columns={'contexts': 'blurbs'} or --columns contexts=blurbs" in said
    assert "unused columns: blurbs, note, score" in said
    report = rm.Suite(["faithfulness"]).evaluate(BLURBS, columns={"contexts": "blurbs"}, progress=False)
    assert report.metrics["faithfulness/n_scored"] == 2


def test_contexts_in_no_row_leave_metrics_of_a_preset_out_with_a_warning() -> None:
    report = rm.Suite.preset("white_paper").evaluate(BLURBS, progress=False)
    of_reference, of_contexts = report.warnings
    assert "correctness (no row has 'reference'); add it" in of_reference
    assert "faithfulness, chunk_precision, fact_recall (no row has 'contexts')" in of_contexts
    assert "--columns contexts=blurbs" in of_contexts
    russian = rm.Suite.preset("white_paper", language="ru").evaluate(BLURBS, progress=False)
    assert "ни в одной строке нет 'contexts'); если это 'blurbs'" in russian.warnings[1]
    assert "faithfulness/mean" not in report.metrics


def test_a_column_of_ids_is_not_proposed_as_contexts() -> None:
    with pytest.raises(MissingFieldError, match=r"contexts=COLUMN \(unused columns: found\)"):
        rm.Suite(["faithfulness"]).evaluate([{"answer": "It is red.", "found": ["doc-1", "doc-2"]}], progress=False)


UNKNOWN_AND_NOTHING = [
    {"answer": "It is red."},
    {"answer": "It is red.", "contexts": None},
    {"answer": "It is red.", "contexts": float("nan")},
    {"answer": "It is red.", "contexts": []},
    {"answer": "It is red.", "contexts": "  "},
    {"answer": "It is red.", "contexts": ["It is red."]},
]


def test_unknown_is_not_nothing_retrieved() -> None:
    metrics = ["faithfulness", "fact_recall", "chunk_precision(no_context='floor')"]
    report = rm.Suite(metrics).evaluate(UNKNOWN_AND_NOTHING, progress=False)
    for key in ("faithfulness", "fact_recall"):
        assert [score.status for score in (row.scores[key] for row in report.rows)] == ["skipped"] * 3 + ["ok"] * 3
        assert report.metrics[f"{key}/n_no_context"] == 2
        assert "no_context=" in report.rows[0].scores[key].reason
    assert [row.scores["chunk_precision"].value for row in report.rows] == [0.0] * 5 + [1.0]
    (warning,) = report.warnings
    assert warning.startswith("3 of 6 rows have no 'contexts' field")
    assert warning.endswith("skipped by faithfulness, fact_recall")


def test_one_sample_keeps_the_literal_rule() -> None:
    for record in UNKNOWN_AND_NOTHING[:5]:
        assert rm.score("faithfulness", record).value == 1.0
        assert rm.score("rag_score", {**record, "question": "What?", "reference": "It is red."}).value == 1.0
    with pytest.raises(MissingFieldError):
        rm.score("faithfulness", {"contexts": ["It is red."]})


def test_rows_with_an_unreadable_optional_field_are_counted() -> None:
    rows = [{"answer": "It is red.", "contexts": ["It is red."], "reference": {"a": {"b": 1}}}] * 2
    (warning,) = [w for w in rm.evaluate(rows, ["faithfulness"]).warnings if "cannot be read" in w]
    assert warning.startswith("2 of 2 rows have a 'reference' that cannot be read")
