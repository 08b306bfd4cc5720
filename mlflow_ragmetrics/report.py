"""``Report``: the rows, items and figures of one evaluation, and how to show and log them."""

from __future__ import annotations

from pathlib import Path

from mlflow_ragmetrics.display.document import cell
from mlflow_ragmetrics.display.page import report_page
from mlflow_ragmetrics.display.text import report_blocks, usage_line
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.labels import true_score
from mlflow_ragmetrics.text.messages import counted
from mlflow_ragmetrics.tracking.log import log_report


class Report(Evaluation):
    """The scores of every row, with their explanations.

    ``description``: how they were made (suite, judges, weights, …). ``usage``: calls, tokens and seconds. ``warnings``:
    left-out metrics and doubts about the data. ``source``: the file of the rows. ``figures``: further figures, such as
    repeatability. ``stopped``: why the evaluation ended early, if it did. ``ranges``: the lowest and highest value of
    each key, if known. ``counted``: the totals of all scored rows, if ``rows`` are only the worst.
    """

    true_score = true_score

    def __repr__(self) -> str:
        figures = self.metrics
        means = [f"{key} {figures[f'{key}/mean']:.3f}" for key in self.keys if f"{key}/mean" in figures]
        return f"<Report of {counted(len(self), 'row')}: {', '.join(means) or '; '.join(self.banner)}>"

    def _repr_html_(self) -> str:
        return cell([*report_blocks(self), usage_line(self)])

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """A self-contained HTML page: summary, distributions, a table of rows, and each row's claims and passages.

        With a ``path``, the page is written there, and the path is returned; else the page itself. ``title`` defaults
        to the name of the evaluated file. With more than 20,000 rows, the page shows the 10,000 worst and a random
        10,000 of the others, and says so.
        """
        page = "".join(report_page(self, title))
        if path is None:
            return page
        Path(path).write_text(page, encoding="utf-8")
        return str(path)

    log = log_report
