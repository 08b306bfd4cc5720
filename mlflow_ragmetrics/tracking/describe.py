"""What a run says of a report: what explains a difference, its figures, and the dataset of its questions."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union

from mlflow_ragmetrics.core.safe_text import as_json, plain
from mlflow_ragmetrics.core.score import DOUBTS, Sample
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.rows import digest
from mlflow_ragmetrics.text.messages import counted
from mlflow_ragmetrics.tracking.writer import reason_of

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Dataset, DatasetInput


class Measured(Protocol):
    """What has figures: a report, or the summary of rows that are not kept."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Run metrics by name."""

    @property
    def usage(self) -> Mapping[str, float]:
        """What it cost."""


class Diagnosed(Protocol):
    """Which part failed on a row."""

    @property
    def cause(self) -> str:
        """The part."""

    @property
    def reason(self) -> str:
        """A sentence with the evidence."""


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
    def diagnoses(self) -> Sequence[Diagnosed]:
        """Which part failed, row by row; empty where that is not known."""

    @property
    def incomplete(self) -> Union[str, None]:
        """Why the figures are not those of a whole evaluation."""

    @property
    def partial(self) -> Union[str, None]:
        """How many rows failed, if they exceed 5 % of the rows."""


def package_version() -> str:
    """The installed version of this package."""
    return version("mlflow_ragmetrics")


DIAGNOSIS = "diagnosis"
"""The column that says which part failed, and the feedback that does."""


def cause_figure(cause: str) -> str:
    """The figure that counts the rows in which this part failed."""
    return f"{DIAGNOSIS}/n_{cause.replace(' ', '_')}"


_SHOWN_OTHERWISE = ("correctness", "context_sufficiency")  # MLflow's judges, whose values its pages show as yes and no
_MARKS = {"n_error", "n_no_context", "n_partial", "n_fewer_judges", "few_groups", *DOUBTS.values()}
_STATES = ("n_scored", "n_skipped", "n_error")


def mlflow_name(name: str) -> str:
    """The name in MLflow of a metric, or of a figure such as ``correctness/mean``: in all doors the same.

    It is ``name``, or ``rag_<name>`` for a metric that MLflow's pages show in their own way.
    """
    return f"rag_{name}" if name.partition("/")[0] in _SHOWN_OTHERWISE else name


def figures_of(report: Measured) -> dict[str, float]:
    """All figures: the report's own and ``usage/*``; what is not finite is left out."""
    figures = {**report.metrics, **{f"usage/{name}": value for name, value in report.usage.items()}}
    return {name: float(value) for name, value in figures.items() if value is not None and math.isfinite(value)}


def run_metrics_of(report: Measured) -> dict[str, float]:
    """The figures that are logged as MLflow metrics, by their names there, in the order of its columns.

    Those of composites come first. Of each key ``mean`` and, if there is a threshold, ``pass_rate``;
    ``<composite>_1to5/mean``; the figures of retrieval under their own names; and the marks that are not 0:
    ``n_measured`` if not all rows were measured, ``n_error``, ``n_no_context``, ``n_non_answers``, ``n_unclaimed``,
    ``n_unquoted``, ``n_fewer_judges``, ``few_groups``, ``diagnosis/*``, and a composite's ``n_partial`` and a
    ``coverage`` below 1. All figures are in the artifact ``rag_figures.json``.
    """
    figures = figures_of(report)
    logged = [name for name, value in figures.items() if _is_logged(name, value, figures)]
    logged.sort(key=lambda name: f"{name.partition('/')[0].removesuffix('_1to5')}/coverage" not in figures)
    return {mlflow_name(name): figures[name] for name in logged}


def _is_logged(name: str, value: float, figures: Mapping[str, float]) -> bool:
    key, _, figure = name.partition("/")
    own = key.removesuffix("_1to5")
    if own != key and f"{key}/n_scored" not in figures:
        return f"{own}/coverage" in figures
    if figure == "n_measured":
        return value < sum(figures.get(f"{key}/{name}", 0.0) for name in _STATES)
    if figure in _MARKS or key == DIAGNOSIS:
        return value != 0
    return figure in ("", "mean", "pass_rate") or (figure == "coverage" and value < 1)


def description_of(report: Loggable, data_digest: str, questions_digest: str) -> dict[str, Any]:
    """All that explains the run: suite, judges, weights, versions, data; without secrets and machine paths."""
    import mlflow

    source = {"source": Path(report.source).name} if report.source is not None else {}
    return {
        **report.description,
        "n_rows": len(report.rows),
        "data_digest": data_digest,
        "questions_digest": questions_digest,
        **source,
        "ragmetrics_version": package_version(),
        "mlflow_version": mlflow.__version__,
    }


_TAG = "ragmetrics.questions_digest"
_FIELDS = ("question", "history", "references", "gold_doc_ids")
_PER_REQUEST = 1000
_MOST_RECORDS = 20_000


def questions_digest(rows: Sequence[Row]) -> str:
    """16 hex digits of what is asked and known to be right: questions, history, references and gold ids, in any order.

    What a version answers and retrieves does not count, nor what rows are called.
    """
    return digest(sorted(digest([_asked(row.sample)]) for row in rows))


def dataset_input(rows: Sequence[Row], known: str, experiment_id: str, name: str = "") -> DatasetInput:
    """The dataset of these questions as the input of a run: two versions that answer the same share it.

    ``known`` is their digest. Where MLflow keeps evaluation datasets (on a database), it is one of the experiment, made
    when these questions are seen for the first time; elsewhere, beyond 20,000 rows and for rows without questions it is
    named only. ``name`` is by default how many questions there are.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag

    name = name or counted(len(rows), "question")
    is_kept = len(rows) <= _MOST_RECORDS and any(row.sample.question is not None for row in rows)
    dataset = _evaluation_dataset(rows, experiment_id, name, known) if is_kept else None
    if dataset is None:
        profile = as_json({"num_rows": len(rows)})
        dataset = Dataset(name, known, source_type="code", source=as_json({"tags": {}}), profile=profile)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])


def _evaluation_dataset(rows: Sequence[Row], experiment_id: str, name: str, known: str) -> Dataset | None:
    """MLflow's own dataset of these questions; ``None`` where this MLflow or this store has none."""
    import mlflow
    from mlflow.entities import Dataset
    from mlflow.exceptions import MlflowException
    from mlflow.genai.datasets import create_dataset, search_datasets

    if mlflow.get_tracking_uri().startswith("databricks"):  # there they are tables of Unity Catalog
        return None
    try:
        found = search_datasets(experiment_ids=[experiment_id], filter_string=f"tags.{_TAG} = '{known}'")
    except (NotImplementedError, MlflowException):
        return None
    records = {as_json(record["inputs"]): record for record in map(_record, (row.sample for row in rows))}
    try:
        made = min(found, key=lambda each: (each.created_time, each.dataset_id), default=None)
        if made is None:
            made = create_dataset(name=name, experiment_id=experiment_id, tags={_TAG: known})
        if json.loads(made.profile or "{}").get("num_records", 0) < len(records):
            missing = iter(records.values())
            while batch := list(islice(missing, _PER_REQUEST)):
                made.merge_records(batch)
    except MlflowException as error:
        warnings.warn(f"no evaluation dataset was made of the questions: {reason_of(error)}", stacklevel=4)
        return None
    return Dataset(
        name=str(made.name),
        digest=known,  # MLflow's own changes with each merge
        source_type="mlflow_evaluation_dataset",
        source=as_json({"dataset_id": made.dataset_id}),
        profile=as_json({"num_records": len(records)}),
    )


def _asked(sample: Sample) -> dict[str, Any]:
    history = None if sample.history is None else [asdict(message) for message in sample.history]
    return {**{name: getattr(sample, name) for name in _FIELDS}, "history": history}


def _record(sample: Sample) -> dict[str, Any]:
    asked = plain(_asked(sample))
    references, gold = asked["references"] or [], asked["gold_doc_ids"]
    expectations = {"expected_response": references[0] if len(references) == 1 else references} if references else {}
    if gold is not None:
        expectations["expected_retrieved_context"] = [{"doc_uri": each} for each in gold]
    history = {"messages": asked["history"]} if asked["history"] else {}
    return {"inputs": {"question": asked["question"], **history}, "expectations": expectations}
