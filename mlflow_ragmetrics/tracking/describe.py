"""What a report says about itself: what explains a difference, its figures, its dataset with the real digest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union

from mlflow_ragmetrics.engine.program import Row

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Loggable", "Measured", "description_of", "figures_of", "package_version", "run_metrics_of"]


class Measured(Protocol):
    """What has figures: a report, or the summary of rows that are not kept."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Run metrics by name."""

    @property
    def usage(self) -> Mapping[str, float]:
        """What it cost."""


class Loggable(Measured, Protocol):
    """What a report has that can be written: its public attributes."""

    @property
    def rows(self) -> Sequence[Row]:
        """The samples with their scores."""

    @property
    def description(self) -> Mapping[str, Any]:
        """What made it: suite, judges, weights, …."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was left out."""

    @property
    def source(self) -> Union[str, Path, None]:
        """The file that the rows came from."""

    @property
    def table(self) -> pd.DataFrame:
        """One row per sample."""

    @property
    def items(self) -> pd.DataFrame:
        """One row per claim, chunk, …."""

    @property
    def incomplete(self) -> Union[str, None]:
        """Why the figures are not those of a whole evaluation."""

    @property
    def data_digest(self) -> str:
        """Hex digits that depend on the whole content."""

    @property
    def questions_digest(self) -> str:
        """Hex digits that depend on what is asked and known to be right."""


def package_version() -> str:
    """The installed version of this package."""
    return version("mlflow_ragmetrics")


_LOGGED = {"mean", "ci_low", "ci_high", "n_scored", "pass_rate", "n_groups", "design_effect"}
_LOGGED |= {"true_mean", "true_low", "true_high", "n_labelled"}
_MARKS = {"n_error", "n_no_context", "n_unclaimed", "n_unquoted", "n_fewer_judges", "few_groups"}


def figures_of(report: Measured) -> dict[str, float]:
    """All figures: the report's own and ``usage/*``; what is not finite is left out."""
    figures = {**report.metrics, **{f"usage/{name}": value for name, value in report.usage.items()}}
    return {name: float(value) for name, value in figures.items() if value is not None and math.isfinite(value)}


def run_metrics_of(report: Measured) -> dict[str, float]:
    """Those of the figures that are logged as MLflow metrics, so that a run's page can be read.

    Of each key ``mean``, ``ci_low``, ``ci_high``, ``n_scored`` and, where there is one, ``pass_rate``; where they say
    that something is missing, the marks ``n_error``, ``n_no_context``, ``n_unclaimed``, ``n_unquoted``,
    ``n_fewer_judges``, ``few_groups``, ``n_measured`` and a composite's ``coverage``; ``<composite>_1to5/mean``; what
    groups and labels add; the figures of retrieval under their own names, ``diagnosis/*`` and ``usage/*``. The rest is
    in the artifact ``rag_figures.json``.
    """
    figures = figures_of(report)
    return {name: value for name, value in figures.items() if _is_logged(name, value, figures)}


def _is_logged(name: str, value: float, figures: Mapping[str, float]) -> bool:
    key, _, figure = name.partition("/")
    if not figure or key in ("usage", "repeat", "diagnosis") or figure in ("repeat_sd", "flip_rate"):
        return True
    if key.endswith("_1to5") and f"{key}/n_scored" not in figures:
        return f"{key.removesuffix('_1to5')}/coverage" in figures
    if figure == "n_measured":
        return value < figures[f"{key}/n_scored"]
    return figure in _LOGGED or (figure in _MARKS and value != 0) or (figure == "coverage" and value < 1)


def description_of(report: Loggable) -> dict[str, Any]:
    """All that explains the run: suite, judges, weights, versions, data; without secrets and machine paths."""
    import mlflow

    source = {"source": Path(report.source).name} if report.source is not None else {}
    return {
        **report.description,
        "n_rows": len(report.rows),
        "data_digest": report.data_digest,
        "questions_digest": report.questions_digest,
        **source,
        "ragmetrics_version": package_version(),
        "mlflow_version": mlflow.__version__,
    }
