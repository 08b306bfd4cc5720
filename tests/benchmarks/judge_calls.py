"""The cost of one row for a chat judge: calls, prompt tokens (characters / 4) and tokens of the schemas.

Run it from the repository: ``python -m tests.benchmarks.judge_calls``. The row is that of ``tests/judges/rows.py``: an
answer of 4 sentences, a reference of 3, 5 chunks of about 90 words; the model makes one claim per sentence.
"""

from __future__ import annotations

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.judges.chat.reply import tokens_in
from tests.judges.fake_models import dutiful
from tests.judges.rows import FULL_SET, ROW

WHITE_PAPER = ["correctness", "faithfulness", "chunk_precision", "fact_recall", "answer_relevance"]
SUITES = {"all judged metrics": FULL_SET, "white_paper": WHITE_PAPER, "faithfulness": ["faithfulness"]}
BARS = {
    ("all judged metrics", "full"): (9, 6500),
    ("all judged metrics", "compact"): (5, 3800),
    ("white_paper", "single"): (3, 2600),
}


def main() -> None:
    """Prints one line per suite and form of calls, and whether it meets its limit."""
    for name, metrics in SUITES.items():
        for calls in ("full", "compact", "single"):
            model = dutiful()
            suite = rm.Suite(metrics, judge=rm.ChatJudge(model, calls=calls))
            suite.evaluate([ROW], progress=False)
            tokens = sum(tokens_in(message.content) for sent in model.sent for message in sent)
            ((least, most),) = [(plan, plan.most or plan) for plan in suite.plan([ROW]).values()]
            print(f"{name:18s} {calls:7s} {len(model.sent)} calls, {tokens:5,} prompt tokens", end="")
            print(
                f", schemas {least.schema_tokens:5,}; planned {least.prompt_tokens:,} to {most.prompt_tokens:,}", end=""
            )
            print(f" and {least.completion_tokens:,} to {most.completion_tokens:,} of replies", end="")
            bar = BARS.get((name, calls))
            print("" if bar is None else f"; bar {bar[0]} / {bar[1]:,} {_kept(len(model.sent), tokens, bar)}")


def _kept(calls: int, tokens: int, bar: tuple[int, int]) -> str:
    return "kept" if calls <= bar[0] and tokens <= bar[1] else "MISSED"


if __name__ == "__main__":
    main()
