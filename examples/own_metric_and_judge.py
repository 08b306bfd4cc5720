"""Write a computed metric, a metric that asks a judge, and a judge: each takes a few lines.

python examples/own_metric_and_judge.py
python examples/own_metric_and_judge.py --judge openai:/gpt-4o-mini
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import JudgeError

DATA = Path(__file__).parent / "data" / "ragtruth_llama-2-13b.jsonl"


@rm.metric
def brevity(answer: str, *, limit: int = 60) -> float:
    """1.0 for an answer of at most ``limit`` words, proportionally less for longer ones."""
    return min(1.0, limit / max(1, len(answer.split())))


@rm.metric
def first_passage_suffices(answer: str, contexts: Sequence[str]) -> rm.Steps[rm.Score]:
    """The share of the answer's claims that the first passage alone supports."""
    claims = yield from rm.ask(rm.Claims(answer))
    if not claims or not contexts:
        return rm.Score(reason="there is no claim or no passage")
    findings = yield from rm.ask(rm.Verify(claims, (contexts[0],)))
    supported = sum(finding.verdict.upper() == "SUPPORTED" for finding in findings)
    items = tuple(rm.Item("claim", text, finding.verdict) for text, finding in zip(claims, findings, strict=True))
    return rm.Score(value=supported / len(claims), reason=f"{supported} of {len(claims)} claims", items=items)


class VerbatimJudge:
    """Treats each line as a claim, and supports it if a passage contains it word for word."""

    name = "verbatim"
    local = True

    def answer(self, questions: Sequence[rm.Question]) -> list[rm.Outcome]:
        return [self._answer(question) for question in questions]

    def _answer(self, question: rm.Question) -> rm.Outcome:
        if isinstance(question, rm.Claims):
            return tuple(line.strip() for line in question.text.splitlines() if line.strip())
        if isinstance(question, rm.Verify):
            return tuple(rm.Finding(self._verdict(claim, question.passages)) for claim in question.claims)
        return JudgeError(f"{self.name} has no answer to {question.kind}")

    def _verdict(self, claim: str, passages: Sequence[str]) -> str:
        return "SUPPORTED" if any(claim.casefold() in passage.casefold() for passage in passages) else "NEUTRAL"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", default="lexical", help="second judge: lexical or a model URI (default: lexical)")
    arguments = parser.parse_args()

    suite = rm.Suite(
        [brevity(limit=80), first_passage_suffices, "faithfulness"], judge=[VerbatimJudge(), arguments.judge]
    )
    report = suite.evaluate(DATA)

    print(f"{len(report)} answers; judged metrics are the mean of both judges:")
    for key in report.keys:
        print(f"  {key:24} {report.metrics[f'{key}/mean']:.3f}")
    row = report.rows[0]
    print(f"\n{row.sample.id}: {row.sample.question}")
    for key, score in row.scores.items():
        judges = ", ".join(f"{name} {value:.2f}" for name, value in score.model_scores.items())
        print(f"  {key:24} {score.value:.2f}  {judges or 'computed'}")


if __name__ == "__main__":
    main()
