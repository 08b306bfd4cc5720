"""A user's script that uses all doors; tests/test_types.py checks it with mypy (strict) and pyright."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlflow.genai
import mlflow.models
import pandas as pd
from langchain_core.runnables import Runnable, RunnableLambda
from typing_extensions import assert_type

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.calibration import rows_to_label
from mlflow_ragmetrics.errors import BudgetExceededError, GateError, JudgeError, MissingFieldError, NoConsensusError
from mlflow_ragmetrics.spark import log_spark, score_spark, summarize_spark

SUITE: list[str | rm.Metric] = ["faithfulness", rm.rouge(rouge_type="rougeL")]


def of_a_file(path: str) -> str:
    suite = rm.Suite.preset("white_paper", judge="lexical", timeout=20, weights={"faithfulness": 1}, calls="compact")
    report = suite.evaluate(path, columns={"answer": "output"}, progress=False)
    report.check(min_scored=0.9, fail_over={"hallucination_rate": 0.1}, faithfulness=0.8)
    assert_type(report.metrics, dict[str, float])
    assert_type(report["faithfulness"]["mean"], float)
    assert_type(report.worst_rows(5), list[rm.Row])
    assert_type(report.by("topic"), pd.DataFrame)
    assert_type(report.diagnoses[0].reason, str)
    assert_type(report.to_html(), str)
    return report.log(run_name="nightly", tags={"stage": "ci"}, dataset="questions", texts=False)


def of_frames_and_lists(frame: pd.DataFrame) -> None:
    suite = rm.Suite.of(SUITE, judge=["lexical", rm.ScriptedJudge(name="strict")], groups="talk")
    assert_type(suite.replace(language="ru").evaluate(frame), rm.Report)
    for row in suite.stream([{"question": "q", "answer": "a", "contexts": ["c"]}]):
        assert_type(row.scores["faithfulness"].value, "float | None")
    for name, plan in suite.plan(frame).items():
        assert_type((name, plan.calls), "tuple[str, int]")


def decided(first: str, second: str) -> bool:
    comparison = rm.compare(first, second, tolerance=0.02)
    comparison.check(fail_on=["regressed"])
    assert_type(comparison["faithfulness"].difference, "float | None")
    power = rm.power(comparison, detect=0.03)["faithfulness"]
    calibration = rm.calibrate(first, "human", key="faithfulness")
    labels = rows_to_label(first, key="faithfulness", budget=60)
    assert_type(labels, pd.DataFrame)
    return power.rows_needed is not None and calibration.to_text(80) != comparison.to_markdown()


def of_mlflow(frame: pd.DataFrame) -> None:
    traced = rm.scorer(SUITE, columns={"answer": "text"})
    one = rm.get_scorer("rouge", threshold=0.5)
    result = mlflow.genai.evaluate(data=frame, scorers=[traced, *rm.scorers(SUITE), one])
    assert_type(traced.log(result), str)
    metrics = rm.extra_metrics(["faithfulness", rm.ndcg(k=5)])
    mlflow.models.evaluate(data=frame, predictions="answer", extra_metrics=metrics)  # type: ignore[no-untyped-call]


def of_spark(frame: Any) -> None:
    scored = score_spark(frame, ["faithfulness"], judge="lexical")
    assert_type(summarize_spark(scored).metrics["faithfulness/mean"], float)
    assert_type(log_spark(scored, ["faithfulness"]), str)


def of_chains() -> None:
    chain: Runnable[Any, Any] = RunnableLambda(lambda asked: {"answer": "a", "context": ["c"]})
    with rm.RagMetricsCallback(SUITE) as seen:
        chain.invoke({"question": "q"}, config={"callbacks": [seen]})
    assert_type(rm.evaluate_chain(chain, [{"question": "q"}], SUITE, input_key="question"), rm.Report)


def test_answer(rag_row: rm.Row, rag_report: rm.Report) -> None:
    rm.assert_score(["faithfulness >= 0.8", "rougeL_f1 >= 0.3"], rag_row)
    rm.assert_score("faithfulness >= 0.8", {"answer": "a", "contexts": ["c"]}, judge="lexical")
    rag_report.check(faithfulness=0.9)


def of_stress(path: str) -> str:
    return rm.stress(["faithfulness"], path).to_text(80)


@rm.metric
def brevity(answer: str, *, limit: int = 20) -> float:
    return min(1.0, limit / max(1, len(answer.split())))


@rm.metric
def first_passage_suffices(answer: str, contexts: Sequence[str]) -> rm.Steps[rm.Score]:
    claims = yield from rm.ask(rm.Claims(answer))
    findings = yield from rm.ask(rm.Verify(tuple(claims), (contexts[0],)))
    return rm.Score(value=sum(each.verdict == "SUPPORTED" for each in findings) / len(claims))


def of_metrics() -> None:
    assert_type(brevity, rm.Metric)
    assert_type(rm.NLIJudge("folder", threshold=0.6), rm.NLIJudge)
    assert_type(rm.rag_score(weights={"faithfulness": 2}), rm.Composite)
    assert_type(rm.content_safety(additional_blocklist=["word"], threshold=1).threshold, "float | None")
    try:
        rm.score(first_passage_suffices(threshold=0.5), {"answer": "a"})
    except MissingFieldError as error:
        assert_type(error.field, str)
    except (BudgetExceededError, NoConsensusError, GateError) as other:
        assert_type(other.metric, "str | None")


class Own(rm.Judge):
    name = "own"

    def answer(self, questions: Sequence[rm.Question[Any]]) -> list[rm.Outcome]:
        return [JudgeError("off") for _ in questions]
