"""Choosing rows to label, and using their labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.calibration import rows_to_label
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.results.results import read_table

from .reports import labelled_report


def test_the_rows_have_an_empty_label_and_no_score() -> None:
    report, _ = labelled_report(300)
    rows = rows_to_label(report, budget=40)
    assert len(rows) == 40
    assert list(rows.columns) == ["id", "question", "answer", "reference", "label"]
    assert rows["label"].isna().all()
    pd.testing.assert_frame_equal(rows, rows_to_label(report, budget=40))
    assert set(rows["id"]) != set(rows_to_label(report, budget=40, seed=1)["id"])
    assert len(rows_to_label(report, budget=400)) == 300


def test_the_choice_depends_on_no_order_and_covers_the_scores_evenly() -> None:
    report, _ = labelled_report(300)
    chosen = set(rows_to_label(report, budget=30)["id"])
    turned = replace(report, rows=list(reversed(report.rows)))
    assert set(rows_to_label(turned, budget=30)["id"]) == chosen
    ranks = report.table.sort_values(["faithfulness", "id"])["id"].reset_index(drop=True)
    assert sorted(int(rank) // 10 for rank, name in ranks.items() if name in chosen) == list(range(30))


def test_rows_that_have_a_label_are_left_out() -> None:
    report, _ = labelled_report(300)
    first = rows_to_label(report, budget=30)
    labels = dict.fromkeys(first["id"], 1.0)
    assert not set(first["id"]) & set(rows_to_label(report, budget=270, labels=labels)["id"])
    with pytest.raises(InvalidDataError, match="without a label"):
        rows_to_label(report, labels="human")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"budget": 0}, "budget"), ({"key": "k"}, "use one of faithfulness"), ({"budget": True}, "budget")],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        rows_to_label(labelled_report(20)[0], **options)  # type: ignore[arg-type]


def test_the_command_writes_a_file_that_is_read_back(tmp_path: Path) -> None:
    report, good = labelled_report(200)
    rows, labels = tmp_path / "rows.parquet", tmp_path / "labels.csv"
    report.table.to_parquet(rows)
    done = CliRunner().invoke(main, ["label", str(rows), "--budget", "50", "-o", str(labels)])
    assert done.exit_code == 0, done.output
    assert "50 rows to label" in done.output
    truth = {row.sample.id: "yes" if label else "no" for row, label in zip(report.rows, good, strict=True)}
    given = read_table(labels)
    filled = tmp_path / "filled.csv"
    given.assign(label=[truth[name] for name in given["id"]]).to_csv(filled, index=False)
    assert rm.calibrate(report, filled).rows == 50
    found = report.true_score("faithfulness", filled)
    assert found.labels == 50


def test_several_judges_stand_beside_each_other() -> None:
    report, _ = labelled_report(200)
    dear = replace(report, description={"judge": ["dear"]})
    other = labelled_report(200, seed=0)[0]
    blind = replace(other, rows=[replace(r, scores={"faithfulness": rm.Score(0.7)}) for r in other.rows])
    cheap = replace(blind, description={"judge": ["cheap"]})
    found = rm.calibrate([dear, cheap], "human")
    assert found.judge == "dear"
    (beside,) = found.beside
    assert beside.name == "cheap"
    assert beside.auroc.value == 0.5
    assert "faithfulness at 0.5 (default) by dear" in str(found)
    renamed = replace(report, rows=[replace(r, sample=replace(r.sample, id=f"other {r.index}")) for r in report.rows])
    with pytest.raises(InvalidDataError, match="no scored row in common"):
        rm.calibrate([report, renamed], "human")
