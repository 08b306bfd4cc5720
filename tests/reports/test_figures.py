"""Figures, comparisons and their files, in the situations that public reports name."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.errors import JudgeError

Rows = list[dict[str, Any]]


@rm.metric
def last_number(answer: str) -> float:
    """The number at the end of the answer."""
    return float(answer.split()[-1])


@rm.metric(higher_is_better=False)
def low_number(answer: str) -> float:
    """The number at the end of the answer; lower is better."""
    return float(answer.split()[-1])


def report_of(values: Iterable[float], metric: Any = last_number, question: str = "q{}") -> rm.Report:
    rows = [
        {"id": str(n), "question": question.format(n), "answer": f"a {value}", "good": "no" if value > 0.5 else "yes"}
        for n, value in enumerate(values)
    ]
    return rm.Suite([metric]).evaluate(rows, progress=False)


def no_winner(a: Any, b: Any, key: str) -> bool:
    """Whether the comparison is refused, or gives no verdict on this key."""
    try:
        return rm.compare(a, b, rows=0).verdict.get(key) not in ("improved", "regressed")
    except rm.RagMetricsError:
        return True


@cache
def retrieval() -> rm.Report:
    """Of 30 rows a third retrieves all gold documents."""
    rows = [{"question": "q", "retrieved_doc_ids": ["a"], "gold_doc_ids": ["b" if n % 3 else "a"]} for n in range(30)]
    return rm.Suite.preset("retrieval").evaluate(rows, progress=False)


@pytest.mark.parametrize(
    ("report", "limits", "named"),
    [
        (lambda: report_of([0.79996] * 20), {"last_number": 0.8}, "0.79996"),
        (lambda: report_of([0.79996] * 20), {"last_number": 0.79996}, None),
        (lambda: report_of([0.9] * 20), {"min_scored": 95, "last_number": 0.1}, "min_scored"),
        (retrieval, {"pct_records_with_all_refs": 30}, None),
        (retrieval, {"pct_records_with_all_refs": 80}, "80"),
        (retrieval, {"context_recall": 80}, "80"),
    ],
    ids=[
        "message",
        "own_figure",
        "min_scored_as_percent",
        "percent_gate",
        "percent_gate_failed",
        "percent_for_a_share",
    ],
)
def test_borders_percents(report: Callable[[], rm.Report], limits: dict[str, Any], named: str | None) -> None:
    if named is None:
        report().check(**limits)
    else:
        with pytest.raises(rm.RagMetricsError, match=named):
            report().check(**limits)


def words(count: int, seed: int = 1, **fields: Any) -> Rows:
    draw = random.Random(seed)
    return [
        {"id": str(n), "question": "red green?", "reference": "red green red red", "g": str(n),
         "answer": " ".join(["red"] * draw.randint(1, 5) + ["blue"] * draw.randint(0, 4)), **fields}
        for n in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("count", [39, 40, 60])
def test_groups_single_rows(count: int) -> None:
    """The interval over groups of one row each is that of the rows."""
    grouped, plain = (
        rm.Suite(["rouge"], groups=by).evaluate(words(count), progress=False).metrics for by in ("g", None)
    )
    low, mean, high = (grouped[f"rouge1_f1/{name}"] for name in ("ci_low", "mean", "ci_high"))
    assert low <= mean <= high
    assert low == pytest.approx(plain["rouge1_f1/ci_low"], abs=0.05)


def test_groups_one_value_everywhere() -> None:
    report = rm.Suite(["rouge"], groups="g").evaluate(words(40, answer="red"), progress=False)
    low, mean, high = (report.metrics[f"rouge1_f1/{name}"] for name in ("ci_low", "mean", "ci_high"))
    assert low <= mean <= high


def test_groups_summarize_and_compare() -> None:
    draw = random.Random(1)
    figures = rm.summarize([draw.random() for _ in range(60)], groups=list(range(60)))
    assert figures["ci_low"] < figures["mean"] < figures["ci_high"]
    a, b = (rm.Suite(["rouge"]).evaluate(words(60, seed), progress=False) for seed in (1, 2))
    difference = rm.compare(a, b, groups="g", rows=0).differences[0]
    assert difference.low < difference.high


@pytest.mark.parametrize(
    "label_of", [lambda n: 4, lambda n: 50 + n, lambda n: -1 if n % 2 else 1], ids=["grades", "percents", "negative"]
)
def test_labels_out_of_range(label_of: Callable[[int], int]) -> None:
    with pytest.raises(rm.RagMetricsError, match="label"):
        report_of([0.5] * 10).true_score("last_number", {str(n): label_of(n) for n in range(10)})


def test_labels_one_id_twice(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("id,label\n0,1\n0,0\n1,1\n2,0\n3,1\n")
    with pytest.raises(rm.RagMetricsError, match="0"):
        report_of([0.5] * 10).true_score("last_number", str(path))


@cache
def masts(without: str = "none") -> rm.Report:
    """White paper's report; ``without``: which references are missing, none, half or all."""
    missing = {"none": lambda n: False, "half": lambda n: n % 2 == 0, "all": lambda n: True}[without]
    rows = [
        {"id": str(n), "question": f"How tall is mast {n}?", "answer": f"Mast {n} is 40 m tall.",
         "contexts": [f"Mast {n} is 40 m tall."], "reference": None if missing(n) else f"Tower {n} was sold."}
        for n in range(60)
    ]  # fmt: skip
    return rm.Suite.preset("white_paper", judge="lexical").evaluate(rows, progress=False)


@pytest.mark.parametrize("sides", [("none", "half"), ("half", "none"), ("none", "all")])
def test_lost_references(sides: tuple[str, str]) -> None:
    """No verdict on a composite that reads references which one side lacks."""
    assert no_winner(*map(masts, sides), "rag_score")


def test_lost_references_partial_rows_are_counted() -> None:
    assert masts("half").metrics["rag_score/n_partial"] == 30


def test_other_questions() -> None:
    """Rows with the same numbers as ids, but other questions, are not paired."""
    spread = [(n % 50) / 100 for n in range(200)]
    better = [value + 0.3 for value in spread]
    assert no_winner(report_of(spread, question="x{}"), report_of(better, question="y{}"), "last_number")
    assert rm.compare(report_of(spread), report_of(better)).verdict == {"last_number": "improved"}


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
@pytest.mark.parametrize(
    ("metrics", "key"),
    [
        (("rouge", "rouge(tokenizer='rouge_score')"), "rouge1_f1"),
        (("faithfulness(no_context='floor')", "faithfulness(no_context='vacuous')"), "faithfulness"),
    ],
    ids=["tokenizer", "no_context"],
)
def test_options_files(metrics: tuple[str, str], key: str, ending: str, tmp_path: Path) -> None:
    """Files of results made with different options are not compared in silence."""
    rows = [
        {"id": str(n), "question": f"How red is {n}?", "answer": f"It is RED, number {n}.",
         "reference": f"it is red number {n}", "contexts": [f"It is red, number {n}."] if n % 3 else []}
        for n in range(60)
    ]  # fmt: skip
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    files = [str(tmp_path / f"{name}.{ending}") for name in "ab"]
    for metric, path in zip(metrics, files, strict=True):
        command = ["evaluate", str(data), "-m", metric, "--no-log", "--worst", "0", "-o", path]
        assert CliRunner().invoke(main, command).exit_code == 0
    assert no_winner(*files, key)


class GivesUp(rm.ScriptedJudge):
    """Fails in the first ``rows`` rows."""

    rows = 0

    def answer(self, questions: Any) -> list[Any]:
        lost = [any(f"red {n}." in str(question) for n in range(self.rows)) for question in questions]
        replies = zip(lost, super().answer(questions), strict=True)
        return [JudgeError("strict: gave up") if is_lost else reply for is_lost, reply in replies]


def test_panel_member() -> None:
    """A judge that is missing in half of the rows makes no side better, and is named."""

    def run(lost: int) -> rm.Report:
        strict = GivesUp(name="strict", rating=1)
        strict.rows = lost
        rows = [
            {"id": str(n), "question": f"q{n}", "answer": f"It is red {n}.", "reference": "Red."} for n in range(120)
        ]
        judges = [rm.ScriptedJudge(name="kind", rating=5), strict]
        return rm.Suite([rm.correctness()], judge=judges).evaluate(rows, progress=False)

    assert no_winner(run(0), run(60), "correctness")
    assert "strict" in " ".join(map(str, [*run(60).warnings, *run(60).notes, run(60)]))


def is_refused_or_stopped(report: rm.Report, key: str, limit: float) -> bool:
    try:
        figures = report.true_score(key, "good").metrics
        replace(report, figures=figures).check(fail_over={f"{key}/true_mean": limit})
    except rm.RagMetricsError:
        return True
    return False


def test_true_score_lower() -> None:
    """Labels "good" mean few of the bad thing: a gate on too much of it does not pass where most rows are bad."""
    assert is_refused_or_stopped(report_of([0.9] * 54 + [0.1] * 6, low_number), "low_number", 0.3)
    rows = [
        {"id": str(n), "question": f"q{n}", "answer": "It is green." if n < 27 else "It is red.",
         "reference": "It is red.", "contexts": ["It is red."], "good": "no" if n < 27 else "yes"}
        for n in range(30)
    ]  # fmt: skip
    report = rm.Suite(["hallucination_rate"], judge="lexical").evaluate(rows, progress=False)
    assert is_refused_or_stopped(report, "hallucination_rate", 0.2)


def test_true_score_lower_calibrate_perfect_control() -> None:
    labels = {str(n): int(n < 30) for n in range(60)}
    assert "1.000" in str(rm.calibrate(report_of([0.1] * 30 + [0.9] * 30, low_number), labels))


def test_true_score_unmeasured() -> None:
    """Scores that a rule gave count neither in a calibration nor in a true score."""
    rows = [
        {"id": str(n), "question": f"q{n}", "answer": "It is red." if n % 3 else "It is green.",
         "contexts": ["It is red."] if n >= 20 else []}
        for n in range(40)
    ]  # fmt: skip
    labels = {str(n): int(n % 3 != 0 and n >= 20) for n in range(40)}
    every, measured = (rm.Suite(["faithfulness"]).evaluate(part, progress=False) for part in (rows, rows[20:]))
    true_score = every.true_score("faithfulness", labels)
    assert true_score.judge == pytest.approx(every.metrics["faithfulness/mean"], abs=0.0006)
    some = {str(n): labels[str(n)] for n in range(20, 40, 2)}
    values = [report.true_score("faithfulness", some).value for report in (every, measured)]
    assert values[0] == pytest.approx(values[1], abs=0.0006)
    texts = [str(rm.calibrate(report, labels, key="faithfulness")).splitlines() for report in (every, measured)]
    default = [[line for line in lines if "default" in line] for lines in texts]
    assert default[0] == default[1] != []


@pytest.mark.parametrize(
    ("metric", "sample", "name"),
    [
        ("faithfulness", {"question": "How tall?", "answer": "41 m", "contxts": ["It is 41 m."]}, "contxts"),
        ("coherence", {"question": "How tall?", "anwser": "It is 41 m tall."}, "anwser"),
        ("correctness", {"question": "How tall?", "answer": "41 m", "refernce": "41 m"}, "refernce"),
    ],
)
def test_misspelt(metric: str, sample: dict[str, Any], name: str) -> None:
    with pytest.raises(rm.RagMetricsError, match=name):
        rm.score(metric, sample)
