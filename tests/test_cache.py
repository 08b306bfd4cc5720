from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cache import SQLiteStore, decode, encode
from mlflow_ragmetrics.core.question import (
    Claims,
    Embed,
    Finding,
    Grade,
    Question,
    Rating,
    Related,
    RelatedChunks,
    Tone,
    Verify,
)

PAIRS: list[tuple[Question, Any]] = [
    (Claims("One. Two."), ("One.", "Два.")),
    (Claims("Nothing."), ()),
    (Verify(("a", "b"), ("p",)), (Finding("SUPPORTED", "so", 0.25, ((1, "q"),)), Finding("neutral"))),
    (RelatedChunks("t", ("c",)), (Related(1, "q", "r"),)),
    (Grade("correctness", "a", "q", "r"), Rating(4.0, "so")),
    (Grade("answer_relevance", "a", "q"), Rating("4/5")),
    (Tone("a", "r"), Rating(0.5)),
]


class CountingJudge:
    """Answers and counts grades; its identity is its name."""

    def __init__(self, name: str, grade: float) -> None:
        self.name = self.fingerprint = name
        self.grade = grade
        self.asked = 0

    def answer(self, questions: Any) -> list[Any]:
        self.asked += len(questions)
        return [Rating(self.grade) for _ in questions]


ROW = {"question": "Q?", "answer": "A tower.", "reference": "The tower."}


@pytest.mark.parametrize(("question", "answer"), PAIRS)
def test_every_answer_comes_back_as_it_was(tmp_path: Path, question: Question, answer: Any) -> None:
    store = SQLiteStore(tmp_path / "deep" / "cache.db")
    assert store.get("judge", question) is None
    store.put("judge", question, answer)
    del store
    again = SQLiteStore(tmp_path / "deep" / "cache.db").get("judge", question)
    assert again == answer
    assert type(again) is type(answer)


def test_two_models_never_share_an_answer(tmp_path: Path) -> None:
    first, second = CountingJudge("a", 5), CountingJudge("b", 1)
    scores = [
        next(iter(rm.Suite(["correctness"], judge=judge, cache=tmp_path / "c.db").evaluate([ROW]).rows)).scores[
            "correctness"
        ]
        for judge in (first, second, first, second)
    ]
    assert [score.value for score in scores] == [1.0, 0.0, 1.0, 0.0]
    assert (first.asked, second.asked) == (1, 1)


def test_whose_text_it_is_does_not_matter_and_everything_else_does(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "c.db")
    store.put("judge", Claims("T", role="answer"), ("T",))
    assert store.get("judge", Claims("T", role="reference")) == ("T",)
    assert store.get("judge", Claims("t")) is None
    assert store.get("other", Claims("T")) is None


def test_without_a_cache_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rm.Suite(["correctness"], judge=CountingJudge("a", 5), cache=None).evaluate([ROW])
    assert list(tmp_path.iterdir()) == []


def test_failures_vectors_and_strange_shapes_are_not_kept(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "c.db")
    store.put("judge", Embed(("t",)), {"m": ((0.1,),)})
    store.put("judge", Claims("T"), {"not": "claims"})
    assert store.get("judge", Embed(("t",))) is None
    assert store.get("judge", Claims("T")) is None


def test_the_file_is_for_its_owner_and_holds_no_judge_in_clear(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    store = SQLiteStore(path)
    store.put("judge;key=sk-1234567890", Claims("T"), ("T",))
    del store
    assert path.stat().st_mode & 0o077 == 0
    assert b"sk-1234567890" not in path.read_bytes()


@pytest.mark.parametrize("content", [b"this is no database, " * 100, b"\x00" * 5000])
def test_a_damaged_file_is_one_warning_and_no_end(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.db"
    path.write_bytes(content)
    judge = CountingJudge("a", 5)
    with pytest.warns(RuntimeWarning, match=r"c\.db.* cannot be read") as caught:
        report = rm.Suite(["correctness"], judge=judge, cache=path).evaluate([ROW, {**ROW, "answer": "Else."}])
    assert len([w for w in caught if "c.db" in str(w.message)]) == 1
    assert [row.scores["correctness"].value for row in report.rows] == [1.0, 1.0]
    assert path.read_bytes() == content


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    store = SQLiteStore(path)
    with pytest.warns(RuntimeWarning, match="not a cache of version"):
        store.put("judge", Claims("T"), ("T",))
    with sqlite3.connect(path) as other:
        assert [name for (name,) in other.execute("SELECT name FROM sqlite_master")] == ["theirs"]


def test_a_file_that_cannot_be_written_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    store = SQLiteStore(path)
    store.put("judge", Claims("T"), ("T",))
    store._open().execute("PRAGMA query_only = ON")  # like a read-only medium, which also applies to root
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        store.put("judge", Claims("U"), ("U",))
    assert store.get("judge", Claims("T")) == ("T",)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put("judge", Claims("V"), ("V",))


def test_a_locked_file_is_a_warning_until_it_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlflow_ragmetrics.cache._BUSY_SECONDS", 0.05)
    monkeypatch.setattr("mlflow_ragmetrics.cache._PAUSE_SECONDS", 0.1)
    path = tmp_path / "c.db"
    store = SQLiteStore(path)
    store.put("judge", Claims("T"), ("T",))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.warns(RuntimeWarning, match="locked"):
            store.put("judge", Claims("U"), ("U",))
        assert store.get("judge", Claims("T")) == ("T",)
    finally:
        holder.close()
    time.sleep(0.1)
    store.put("judge", Claims("U"), ("U",))
    assert (store.get("judge", Claims("T")), store.get("judge", Claims("U"))) == (("T",), ("U",))


def test_many_threads_and_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    code = (
        "import sys, warnings; warnings.simplefilter('error')\n"
        "from mlflow_ragmetrics.cache import SQLiteStore\n"
        "from mlflow_ragmetrics.core.question import Claims\n"
        "store = SQLiteStore(sys.argv[1])\n"
        "for i in range(200): store.put('judge', Claims(f'{sys.argv[2]}-{i}'), (str(i),))\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(3)]
    store = SQLiteStore(path)

    def write(name: str) -> None:
        for number in range(100):
            store.put("judge", Claims(f"{name}-{number}"), (str(number),))

    threads = [threading.Thread(target=write, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [other.wait(timeout=60) for other in others] == [0, 0, 0]
    names = [*map(str, range(3)), *(f"t{n}" for n in range(4))]
    for name in names:
        for number in range(100):
            assert store.get("judge", Claims(f"{name}-{number}")) == (str(number),)


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_FINDING = st.builds(
    Finding,
    _TEXT,
    _TEXT,
    st.none() | st.floats(0, 1),
    st.lists(st.tuples(st.integers(1, 9), _TEXT), max_size=3).map(tuple),
)


@given(st.lists(_FINDING, max_size=4).map(tuple))
def test_findings_come_back(findings: tuple[Finding, ...]) -> None:
    question = Verify(tuple("c" * len(findings)), ("p",))
    text = encode(question, findings)
    assert text is not None
    assert decode(question, text) == findings


@given(st.one_of(st.none(), _TEXT, st.floats(1, 5)))
def test_a_grade_comes_back_as_it_was_given(value: float | str | None) -> None:
    question = Grade("correctness", "a")
    text = encode(question, Rating(value, "so"))
    assert text is not None
    assert decode(question, text) == Rating(value, "so")


def test_what_does_not_fit_is_nothing() -> None:
    one = encode(Verify(("c",), ("p",)), (Finding("SUPPORTED"),))
    assert one is not None
    assert decode(Verify(("c", "d"), ("p",)), one) is None
    assert decode(Claims("T"), "{broken") is None
    assert decode(Claims("T"), '{"a": 1}') is None
    assert encode(Embed(("t",)), {}) is None
    assert encode(Claims("T"), 3) is None
