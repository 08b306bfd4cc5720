"""Streaming many rows gives the same file, figures, gates and output as keeping them, and stops in the same way."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlflow_ragmetrics.cli import output
from mlflow_ragmetrics.results.results import read_table

_COUNT = 230


def _rows() -> list[dict[str, Any]]:
    """Later rows have fields, types and scores that earlier ones lack."""
    chance = random.Random(4)
    words = ["red", "tall", "old", "Paris", "seven", "river"]
    rows: list[dict[str, Any]] = []
    for n in range(_COUNT):
        row: dict[str, Any] = {
            "id": f"r{n}",
            "question": f"What is thing {n}?",
            "answer": f"It is {chance.choice(words)} and {chance.choice(words)}.",
            "reference": f"It is {chance.choice(words)}." if n % 50 else ["It is.", "It was."],
            "contexts": [f"It is {chance.choice(words)}."] if n < 100 or n % 3 else [],
            "year": n if n < 120 else n + 0.5,
            "gold_doc_ids": [] if n < 90 else ["a"],
            "retrieved_doc_ids": ["a", "b"],
        }
        row |= {"topic": chance.choice(words)} if n > 150 else {}
        row |= {"tag": n if n < 80 else f"t{n}"}
        rows.append(row)
    return rows


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams from a few rows on, and writes a few at a time."""
    for module in ("cli.evaluate", "evaluation", "results.figures", "statistics.intervals"):
        monkeypatch.setattr(f"mlflow_ragmetrics.{module}.MANY_ROWS", 60)
    monkeypatch.setattr("mlflow_ragmetrics.evaluation._ROWS_AT_ONCE", 10)
    monkeypatch.setattr(output, "_ROWS", 7)
    monkeypatch.setattr(output, "_ROW_GROUP", 3000)


def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlflow_ragmetrics.cli.evaluate.MANY_ROWS", 10**6)


@pytest.mark.parametrize(
    ("suite", "ending"),
    [
        ("retrieval", "parquet"),
        pytest.param("lexical", "jsonl", marks=pytest.mark.slow),
        pytest.param("lexical", "parquet", marks=pytest.mark.slow),
        pytest.param("retrieval", "jsonl", marks=pytest.mark.slow),
        pytest.param("white_paper", "parquet", marks=pytest.mark.slow),
        pytest.param("white_paper", "jsonl", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("small")
def test_all_is_as_with_rows_that_are_kept(
    ending: str, suite: str, ragmetrics, written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = written(_rows())
    key = {"lexical": "coherence", "retrieval": "ndcg_10", "white_paper": "rag_score"}[suite]
    options = ["evaluate", data, "--suite", suite, "--no-log", "--fail-under", f"{key}=0.99", "--worst", "4"]
    went_by = ragmetrics(*options, "--output", f"by.{ending}")
    _kept(monkeypatch)
    kept = ragmetrics(*options, "--output", f"kept.{ending}")
    assert went_by.exit_code == kept.exit_code == (suite != "lexical"), went_by.output + kept.output

    def screen(text: str) -> str:
        plain = re.sub(r"in \d+\.\d s", "in … s", text).replace("by.", "kept.")
        return " ".join(plain.split())

    assert screen(went_by.stdout) == screen(kept.stdout)
    assert went_by.stderr == kept.stderr
    tables = [read_table(Path(f"{name}.{ending}")) for name in ("by", "kept")]
    assert set(tables[0].columns) == set(tables[1].columns)
    columns = [name for name in tables[1].columns if not name.endswith("_measured")]
    for name in columns:
        theirs, ours = (table[name].astype(object).where(table[name].notna(), None).tolist() for table in tables)
        assert list(map(_plain, theirs)) == list(map(_plain, ours)), name
    assert not list(tmp_path.glob("*.partial*"))
    if (suite, ending) == ("white_paper", "parquet"):
        check_that_each_column_has_one_type(tmp_path / "by.parquet")


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def check_that_each_column_has_one_type(file: Path) -> None:
    table = pq.read_table(file)
    assert table.num_rows == _COUNT
    types = {field.name: field.type for field in table.schema}
    assert (types["year"], types["tag"], types["reference"]) == (pa.float64(), pa.string(), pa.string())
    assert types["gold_doc_ids"] == pa.list_(pa.string())
    assert table.column("tag").to_pylist()[79:81] == ["79", "t80"]
    assert table.column("topic").to_pylist()[:151] == [None] * 151
    measured = table.column("faithfulness_measured").to_pylist()
    assert measured == [n < 100 or n % 3 != 0 for n in range(_COUNT)]
    assert pd.read_parquet(file)["faithfulness"].dtype == "Float64"


@pytest.mark.usefixtures("small")
def test_questions_that_repeat_are_said_of_the_first_rows(ragmetrics, written) -> None:
    rows = [{**row, "question": f"What is {row['answer']}"} for row in _rows()]
    done = ragmetrics("evaluate", written(rows), "-m", "rouge", "--no-log", "--output", "out.jsonl")
    assert done.exit_code == 0, done.output
    assert "of the first 60 rows: " in " ".join(done.stdout.split())


@pytest.mark.usefixtures("small")
def test_ids_that_repeat_far_apart_are_refused(ragmetrics, written) -> None:
    rows = _rows()
    rows[-1]["id"] = rows[0]["id"]
    done = ragmetrics("evaluate", written(rows), "-m", "rouge", "--no-log", "--output", "out.jsonl")
    assert done.exit_code == 2
    assert "Rows 1 and 230 have the same id 'r0'" in done.stderr


@pytest.mark.usefixtures("small")
def test_an_interruption_keeps_the_rows_before_it(ragmetrics, written, monkeypatch: pytest.MonkeyPatch) -> None:
    add = output.OutputFile.add

    def interrupted(file: output.OutputFile, row: Any) -> None:
        add(file, row)
        if row.index == 99:
            raise KeyboardInterrupt

    monkeypatch.setattr(output.OutputFile, "add", interrupted)
    done = ragmetrics("evaluate", written(_rows()), "-m", "rouge", "--no-log", "--output", "out.jsonl")
    assert done.exit_code == 130, done.output
    assert len(Path("out.jsonl").read_text().splitlines()) == 100
    assert "interrupted when 100 of 230 rows were scored" in done.stdout
    last = "Stopped: 100 of 230 rows were scored; run the same command again to score all of them."
    assert done.stderr.strip().splitlines()[-1] == last


@pytest.mark.usefixtures("small")
def test_a_full_disk_leaves_the_figures_and_a_sentence(ragmetrics, written, monkeypatch: pytest.MonkeyPatch) -> None:
    flush = output.OutputFile._flush

    def full(file: output.OutputFile) -> None:
        if file._rows[-1].index >= 99:
            raise OSError(28, "No space left on device")
        flush(file)

    monkeypatch.setattr(output.OutputFile, "_flush", full)
    done = ragmetrics("evaluate", written(_rows()), "-m", "rouge", "--no-log", "--output", "out.jsonl")
    assert done.exit_code == 2
    assert "cannot write out.jsonl: No space left on device" in done.stderr
    assert "230 rows" in done.stdout
    assert not Path("out.jsonl").exists()


@pytest.mark.usefixtures("small")
def test_questions_that_repeat_among_the_first_rows_are_a_warning(ragmetrics, written) -> None:
    rows = [
        {"question": f"{n // 10}?", "answer": ("red", "blue")[n // 10 % 2], "reference": "red"} for n in range(_COUNT)
    ]
    said = ragmetrics("evaluate", written(rows), "-m", "rouge", "--no-log", "--worst", "1")
    assert "of the first 60 rows: 60 of 60 rows share their question with others" in " ".join(said.output.split())
