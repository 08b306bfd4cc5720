"""A rule may lower a mean, but never raise it: every cause of unmeasured rows, at every door.

The table lists each metric's value for a cause, if it counts. Figures, verdicts, exit codes and feedback of all doors
must agree with it, whether all or half of the rows are affected.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, Union

import mlflow
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.mlflow_watch import Watch
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.errors import GateError, InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.rows import read_samples
from tests.adapters import doors
from tests.adapters.doors import quiet  # noqa: F401 - a fixture

Rows = list[dict[str, Any]]
Values = Mapping[str, Union[float, None]]
Means = dict[str, float]

KEYS = ("correctness", "faithfulness", "chunk_precision", "fact_recall", "answer_relevance", "rag_score")
IN_MLFLOW = {"correctness": "rag_correctness"}
MARKS = ("n_error", "n_skipped", "n_no_context", "n_unmeasured", "n_measured", "n_unclaimed", "n_partial")
COUNT = 4
ROWS: Rows = [
    {
        "id": f"r{n}",
        "question": f"How high is tower {n} above the old harbour?",
        "answer": f"Tower {n} is {n}1 metres high. Its lake freezes in winter.",
        "reference": f"Tower {n} is {n}1 metres high. Somebody painted its doors.",
        "contexts": [f"Tower {n} is {n}1 metres high.", "Cheese ripens slowly."],
    }
    for n in range(1, COUNT + 1)
]
CLAIMLESS = "[1] [2]"
NOTHING: Values = dict.fromkeys(KEYS)
DECLINED = {**NOTHING, "correctness": 0.0, "faithfulness": 0.0, "answer_relevance": 0.0, "rag_score": 0.0}
"""A non-answer against a clear reference: 0 counts; what falls back on the reference does not."""
RELEVANCE_ONLY = {**NOTHING, "answer_relevance": 0.0}


def clean() -> Values:
    report = rm.evaluate(ROWS, "white_paper")
    values = {key: [row.scores[key].value for row in report.rows] for key in KEYS}
    assert all(len({*each}) == 1 for each in values.values())
    return {key: each[0] for key, each in values.items()}


CLEAN = clean()
assert all(value is not None and 0 < value < 1 for value in CLEAN.values())  # a rule's 0 or 1 would change the mean

UNGROUNDED = {**CLEAN, **dict.fromkeys(("faithfulness", "chunk_precision", "fact_recall", "rag_score"))}
CAUSES: dict[str, tuple[dict[str, Any], Values]] = {
    "contexts []": ({"contexts": []}, UNGROUNDED),
    "blank contexts": ({"contexts": ["", " "]}, UNGROUNDED),
    "no reference": (
        {"reference": None},
        {**CLEAN, "correctness": None, "rag_score": fmean(CLEAN[key] or 0.0 for key in KEYS[1:4])},
    ),
    "blank answer": ({"answer": ""}, DECLINED),
    "non-answer": ({"answer": "I don't know."}, DECLINED),
    "German non-answer": ({"answer": "Das weiß ich leider nicht."}, DECLINED),
    "Chinese non-answer": ({"answer": "我不知道"}, DECLINED),
    "error text": ({"answer": "Error code: 429 - Rate limit reached for requests"}, DECLINED),
    "non-answer without reference": ({"answer": "No idea.", "reference": None}, RELEVANCE_ONLY),
    "both non-answers": ({"answer": "No idea.", "reference": "Unknown."}, {**RELEVANCE_ONLY, "correctness": 1.0}),
    "no claims": (
        {"answer": CLAIMLESS},
        {"faithfulness": None, "fact_recall": None, "rag_score": None},
    ),
}
"""What is changed in a row, and what each metric gives for it; a key that is absent is not looked at."""


def suite_of(**options: Any) -> rm.Suite:
    return rm.Suite.preset("white_paper", **options)


def expected(cause: str, affected: int) -> Means:
    """The means over the measured rows; none where there is no such row."""
    values = CAUSES[cause][1]
    known = {key: [CLEAN[key]] * (COUNT - affected) + [values[key]] * affected for key in KEYS if key in values}
    found = {key: [value for value in each if value is not None] for key, each in known.items()}
    return {key: fmean(each) for key, each in found.items() if each}


def affected_rows(cause: str, affected: int) -> Rows:
    return [{**row, **(CAUSES[cause][0] if n < affected else {})} for n, row in enumerate(ROWS)]


def means_of(pairs: Iterable[tuple[str, float]]) -> Means:
    found: dict[str, list[float]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return {key: fmean(each) for key, each in found.items()}


def means_in(metrics: Mapping[str, float]) -> Means:
    return {key: metrics[f"{key}/mean"] for key in KEYS if f"{key}/mean" in metrics}


def in_mlflow(metrics: Mapping[str, float], figure: str = "mean") -> Means:
    """The figures by key, as MLflow names them: ``correctness`` is ``rag_correctness`` there, and nothing else."""
    assert f"correctness/{figure}" not in metrics
    named = {key: f"{IN_MLFLOW.get(key, key)}/{figure}" for key in KEYS}
    return {key: metrics[name] for key, name in named.items() if name in metrics}


def last_metrics() -> Mapping[str, float]:
    runs = mlflow.search_runs(output_format="list", search_all_experiments=True)
    return dict(runs[0].data.metrics)


def the_report(rows: Rows) -> Means:
    return means_in(rm.evaluate(rows, "white_paper").metrics)


def single_scores(rows: Rows) -> Means:
    scores = ((key, rm.score(key, row, on_missing="skip")) for row in rows for key in KEYS)
    return means_of((key, score.value or 0.0) for key, score in scores if score.measured)


def logged_run(rows: Rows) -> Means:
    rm.evaluate(rows, "white_paper").log()
    return in_mlflow(last_metrics())


def feedback(rows: Rows) -> Means:
    run_id = rm.evaluate(rows, "white_paper").log()
    found = []
    for trace in mlflow.search_traces(run_id=run_id, return_type="list"):
        for each in trace.info.assessments:
            if each.feedback is not None and each.feedback.value is not None:
                whole = float(each.metadata["ragmetrics.value"])  # the value is rounded to four decimals
                assert each.feedback.value == round(whole, 4)
                found.append((f"{each.name}/mean", whole))
            elif each.feedback is not None:
                assert str(each.rationale).startswith("not measured: ")
    return in_mlflow(means_of(found))


def few_kept(rows: Rows) -> Means:
    return means_in(suite_of().evaluate_samples(list(read_samples(rows)), keep=1).metrics)


def models_evaluate(rows: Rows) -> Means:
    result = doors.evaluated_models(suite_of(), rows)
    table = result.tables["eval_results_table"]
    means = in_mlflow(result.metrics)
    for key in KEYS:
        column = pd.to_numeric(table[f"{IN_MLFLOW.get(key, key)}/score"], errors="coerce").dropna()
        assert (float(column.mean()) if len(column) else None) == pytest.approx(means.get(key), abs=1e-6)
    return means


def plugin(rows: Rows) -> Means:
    return in_mlflow(doors.plugin(suite_of(), rows))


def genai(rows: Rows) -> Means:
    """MLflow's own means, over values that are rounded to four decimals."""
    return in_mlflow(mlflow.genai.evaluate(data=doors.genai_rows(rows), scorers=[rm.scorer(suite_of())]).metrics)


def genai_each(rows: Rows) -> Means:
    return in_mlflow(doors.genai_each(suite_of(), rows))


def callback(rows: Rows) -> Means:
    mlflow.langchain.autolog()  # for the names on the traces
    try:
        metrics = doors.callback(suite_of(), rows)
    finally:
        mlflow.langchain.autolog(disable=True)
    means = in_mlflow(metrics)
    assert means == pytest.approx(in_mlflow(metrics, "rolling_mean"))
    return means


def chain_report(rows: Rows) -> Means:
    known = {row["question"]: row for row in rows}
    chain = RunnableLambda(lambda asked: {k: known[asked][k] for k in ("answer", "contexts")})
    asked = [{k: row[k] for k in ("id", "question", "reference") if row[k] is not None} for row in rows]
    return means_in(rm.evaluate_chain(chain, asked, suite_of(), make_input=lambda s: s.question, log=False).metrics)


def trace(rows: Rows) -> None:
    """Traces of a chain that answers with these rows, in the experiment ``traced``."""
    mlflow.set_experiment("traced")
    for row in rows:
        with mlflow.start_span("rag", span_type="CHAIN") as root:
            root.set_inputs({"question": row["question"]})
            with mlflow.start_span("find", span_type="RETRIEVER") as span:
                span.set_outputs([{"page_content": text} for text in row["contexts"]])
            root.set_outputs({"answer": row["answer"]})
        mlflow.flush_trace_async_logging()
        if row["reference"] is not None:
            mlflow.log_expectation(trace_id=root.trace_id, name="expected_response", value=row["reference"])


def watched(rows: Rows) -> Means:
    trace(rows)
    return means_in(Watch(suite_of(), "traced").once().figures)


def report_on_traces(rows: Rows) -> Means:
    trace(rows)
    suite_of().evaluate("traces:/traced", progress=False).log(feedback=True)
    return in_mlflow(last_metrics())


def langsmith(rows: Rows) -> Means:
    said = [
        evaluator(
            inputs={"question": row["question"], "id": row["id"]},
            outputs={"answer": row["answer"], "contexts": row["contexts"]},
            reference_outputs={"reference": row["reference"]} if row["reference"] is not None else None,
        )
        for row in rows
        for evaluator in rm.langsmith_evaluators(suite_of())
    ]
    return means_of((each["key"], float(each["score"])) for each in said if each["score"] is not None)


def evaluate_by_command(rows: Rows, folder: str | Path, *options: str) -> Result:
    given = Path(folder, "rows.jsonl")
    given.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    usual = ["--suite", "white_paper", "--no-log", "--cache", "none"]
    return CliRunner().invoke(main, ["evaluate", str(given), *usual, *options])


def command_line(rows: Rows) -> Means:
    """The means of the file that the command writes, over its measured rows."""
    with TemporaryDirectory() as folder:
        written = Path(folder, "scored.jsonl")
        done = evaluate_by_command(rows, folder, "--output", str(written))
        assert done.exit_code == 0, done.output
        scored = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    return means_of(
        (key, row[key])
        for row in scored
        for key in KEYS
        if row.get(f"{key}_status") == "ok" and row.get(f"{key}_measured") is not False
    )


def assertions(rows: Rows) -> Means:
    """The values at which ``assert_score`` begins to fail, read from its message."""
    found = []
    for row in rows:
        for key in KEYS:
            with pytest.raises(GateError) as caught:
                rm.assert_score(f"{key} > 1", row)
            said = re.match(rf"{key} is (\d\.\d+)", str(caught.value))
            found += [(key, float(said[1]))] if said else []
    return means_of(found)


DOORS: Sequence[Callable[[Rows], Means]] = (
    the_report,
    single_scores,
    few_kept,
    command_line,
    assertions,
    logged_run,
    feedback,
    models_evaluate,
    plugin,
    genai,
    genai_each,
    callback,
    chain_report,
    watched,
    report_on_traces,
    langsmith,
)
ROUNDED = {genai: 5e-5, assertions: 5e-4}
FAST = (the_report, single_scores, few_kept)
RUNS = (logged_run, plugin, genai_each, callback)
TRACED = (logged_run, feedback, models_evaluate, plugin, genai, genai_each, callback, watched, report_on_traces)


def every_door_and_cause() -> Iterator[Any]:
    for door in DOORS:
        for cause in CAUSES:
            for affected in (COUNT // 2, COUNT):
                name = f"{door.__name__}-{cause}-{affected} of {COUNT}"
                yield pytest.param(door, cause, affected, id=name, marks=() if door in FAST else pytest.mark.slow)


@pytest.mark.parametrize("door", DOORS)
def test_every_door_has_the_means_of_rows_that_lack_different_things(door: Callable[[Rows], Means]) -> None:
    """No passages in one row, an error text as the answer of another, and no reference in a third."""
    lacking = ("contexts []", "error text", "no reference")
    rows = [{**row, **CAUSES[cause][0]} for row, cause in zip(ROWS, lacking, strict=False)] + ROWS[len(lacking) :]
    values = [*(CAUSES[cause][1] for cause in lacking), CLEAN]
    known = {key: [of_row[key] for of_row in values if of_row[key] is not None] for key in KEYS}
    means = {key: fmean(each) for key, each in known.items()}
    assert door(rows) == pytest.approx(means, abs=ROUNDED.get(door, 1e-6))
    traces = mlflow.search_traces(return_type="list")
    given = [each for trace in traces for each in trace.info.assessments if each.feedback is not None]
    assert {each.name for each in given} == ({IN_MLFLOW.get(key, key) for key in KEYS} if door in TRACED else set())
    assert all(each.metadata["ragmetrics.key"] == "correctness" for each in given if each.name == "rag_correctness")


@pytest.mark.parametrize(("door", "cause", "affected"), every_door_and_cause())
def test_every_door_has_the_means_of_the_measured_rows(
    door: Callable[[Rows], Means], cause: str, affected: int
) -> None:
    looked_at = CAUSES[cause][1]
    try:
        means = door(affected_rows(cause, affected))
    except RagMetricsError:
        means = {}
    found = {key: value for key, value in means.items() if key in looked_at}
    if not found and door is chain_report:
        return  # an error instead of figures
    assert found == pytest.approx(expected(cause, affected), abs=ROUNDED.get(door, 1e-6))
    logged = last_metrics() if door in RUNS else {}
    for key in (key for key in found if door in RUNS and looked_at[key] is None):
        marks = [f"{IN_MLFLOW.get(key, key)}/{mark}" for mark in MARKS]
        assert logged.get(f"{key}/coverage", 1) < 1 or any(mark in logged for mark in marks), key


@pytest.mark.parametrize("affected", [COUNT // 2, COUNT])
@pytest.mark.parametrize("cause", CAUSES)
def test_a_gate_needs_the_measured_rows_however_low_its_limit(cause: str, affected: int) -> None:
    rows = affected_rows(cause, affected)
    report = rm.evaluate(rows, "white_paper")
    for key, value in CAUSES[cause][1].items():
        if value is None:
            with pytest.raises(GateError if key in report.keys else InvalidOptionError):
                report.check(**{key: 0.0})
            with pytest.raises(GateError, match=f"{key} was not measured and must be"):
                rm.assert_score(f"{key} >= 0", rows[0])
        else:
            report.check(**{key: 0.0})
            rm.assert_score(f"{key} >= 0", rows[0])


@pytest.mark.parametrize("cause", CAUSES)
def test_the_command_counts_the_rows_and_ends_with_1(cause: str, tmp_path: Path) -> None:
    rows = affected_rows(cause, COUNT // 2)
    limits = ",".join(f"{key}=0" for key in CAUSES[cause][1])
    result = evaluate_by_command(rows, tmp_path, "--fail-under", limits)
    missed = [key for key, value in CAUSES[cause][1].items() if value is None]
    assert result.exit_code == int(bool(missed)), result.output
    if missed:
        assert f"{COUNT - COUNT // 2} of {COUNT} rows were measured" in result.stderr
    answer = CAUSES[cause][0].get("answer", CLAIMLESS)
    said = f"{COUNT // 2} of {COUNT} answers are non-answers" in " ".join(result.stdout.split())
    assert said is (answer != CLAIMLESS)
    page = rm.evaluate(rows, "white_paper").to_html()
    assert (f"{COUNT // 2} of {COUNT} answers are non-answers" in page) is said


def log(suite: rm.Suite, rows: Rows) -> None:
    suite.evaluate(rows, progress=False).log()


def log_in_a_users_run(suite: rm.Suite, rows: Rows) -> None:
    with mlflow.start_run():
        log(suite, rows)


def plain_genai(suite: rm.Suite, rows: Rows) -> None:
    mlflow.genai.evaluate(data=doors.genai_rows(rows), scorers=rm.scorers(suite))


@pytest.mark.parametrize("door", [log, log_in_a_users_run, plain_genai, doors.extra_metrics, doors.plugin])
@pytest.mark.parametrize(
    ("fails", "tag"),
    [
        (lambda text: True, "incomplete: no judge answered"),
        (lambda text: "Tower 1" in text, "partial: 11 of 20 rows failed"),
        (lambda text: "Tower 3 " in text, "complete"),
    ],
    ids=["all", "half", "a tenth"],
)
def test_every_door_says_what_the_judge_left_out(
    door: Callable[[rm.Suite, Rows], Any], fails: Callable[[str], bool], tag: str
) -> None:
    rows = [{**ROWS[0], "id": f"r{n}", "question": f"{n}?", "answer": f"Tower {n} is blue."} for n in range(20)]
    door(rm.Suite(["answer_relevance"], judge=doors.FailingJudge(fails)), rows)
    (run,) = mlflow.search_runs(output_format="list")
    assert run.data.tags["ragmetrics.status"].startswith(tag)
    assert run.info.status == ("FAILED" if door is log and tag.startswith("incomplete") else "FINISHED")


LIMITED = dict.fromkeys(KEYS[:5], 0.0)


def passed(rows: Rows, suite: rm.Suite, *, each: bool) -> bool:
    made = rm.scorers(suite) if each else [rm.scorer(suite)]
    result = mlflow.genai.evaluate(data=doors.genai_rows(rows), scorers=made)
    made[0].log(result)
    return bool(result.passed)


@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "cause", ["contexts []", *(pytest.param(each, marks=pytest.mark.slow) for each in ("no reference", "error text"))]
)
def test_genai_passes_only_rows_that_were_measured_against_a_threshold(cause: str, each: bool) -> None:
    suite = suite_of(thresholds=LIMITED)
    assert passed(ROWS, suite, each=each)
    assert not passed(affected_rows(cause, 1), suite, each=each)
    assert not passed(ROWS, suite_of(), each=each)  # no threshold: nothing to pass


def test_one_scorer_passes_without_log_only_where_mlflow_takes_no_expectation_for_a_criterion() -> None:
    made = rm.get_scorer("faithfulness", threshold=0.3)
    data = doors.genai_rows(ROWS)
    result = mlflow.genai.evaluate(data=data, scorers=[made])
    assert not result.passed
    result.pass_criteria["expected_response"] = lambda value: True  # the line from the documentation
    assert result.passed
    without = [{name: part for name, part in row.items() if name != "expectations"} for row in data]
    assert mlflow.genai.evaluate(data=without, scorers=[made]).passed
    empty = [{**row, "inputs": {**row["inputs"], "contexts": []}} for row in without]
    assert not mlflow.genai.evaluate(data=empty, scorers=[made]).passed
    unknown = [{**row, "inputs": {"question": row["inputs"]["question"]}} for row in without]
    assert not mlflow.genai.evaluate(data=unknown, scorers=[made]).passed
