"""A report in the terminal: its text, and how its judge and its embeddings were used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlflow_ragmetrics.cli.output import print_blocks
from mlflow_ragmetrics.core.document import Line
from mlflow_ragmetrics.report.text import report_blocks, usage_line

if TYPE_CHECKING:
    from mlflow_ragmetrics.report.report import Report
    from mlflow_ragmetrics.suite import Suite

_SPELLING = "Embeddings: char-ngram, built in. It compares spelling, not meaning; --embeddings takes a real model."


def show(report: Report, suite: Suite, worst: int, by: Sequence[str] = ()) -> None:
    """Print the figures, those of slices ``by`` columns, the worst rows, and how far to trust the judge."""
    blocks = report_blocks(report, worst, tuple(by))
    if suite.cache is not None:
        kept = f"The judge's answers are kept in {suite.cache} and found again (--cache none: nowhere)."
        blocks.append(Line(kept))
    asks = {each for metric in suite.metrics for each in metric.definition.asks}
    if "embeddings" in asks and any(each.name == "char-ngram" for each in suite.embeddings):
        blocks.append(Line(_SPELLING))
    print_blocks([*blocks, usage_line(report)])
