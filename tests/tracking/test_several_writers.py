"""Several processes that write into one live run, here several ``LiveRun``: the tables hold the rows of all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import mlflow
import pandas as pd
import pytest

from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.tracking.live import LiveRun, add_feedback, new_run
from mlflow_ragmetrics.tracking.writer import Content, RunWriter

NO_ITEMS = pd.DataFrame({"id": []})


def begun(run_id: str) -> LiveRun:
    live = LiveRun(run_id)
    live.begin({})
    return live


def write(live: LiveRun, name: str, value: float = 0.5) -> None:
    live.write_metrics(live.next_metrics({"a": Score(value=value)}, 1), 1)
    live.append(pd.DataFrame({"id": [name], "a": [value], "a_status": ["ok"]}), NO_ITEMS)
    live.publish()


def ids(run_id: str) -> list[str]:
    table = mlflow.artifacts.load_dict(f"runs:/{run_id}/rag_rows.json")
    return sorted(row[table["columns"].index("id")] for row in table["data"])


def run_with_a_row() -> str:
    """A live run in which one process wrote the row "0", and left."""
    run_id = new_run("live", "one")
    before = begun(run_id)
    write(before, "0")
    before.leave()
    return run_id


def test_each_has_a_part_and_the_table_has_all() -> None:
    run_id = new_run("live", "one")
    first, second = begun(run_id), begun(run_id)
    write(first, "1", 0.0)
    write(second, "2", 1.0)
    write(first, "3", 1.0)
    assert ids(run_id) == ["1", "2", "3"]
    assert mlflow.get_run(run_id).data.metrics["a/mean"] == pytest.approx(2 / 3)
    first.leave("no judge answered", {"seen": 3, "dropped": 1})
    second.leave()
    write(begun(run_id), "4")
    assert ids(run_id) == ["1", "2", "3", "4"]
    run = mlflow.get_run(run_id)
    assert run.data.tags["ragmetrics.status"] == "incomplete: no judge answered"
    assert run.data.metrics["calls/dropped"] == 1


def test_one_that_comes_later_keeps_what_is_in_the_tables() -> None:
    run_id = new_run("live", "one")
    first = begun(run_id)
    write(first, "1")
    second = begun(run_id)
    write(second, "2")
    write(first, "3")
    assert ids(run_id) == ["1", "2", "3"]


def test_one_alone_goes_on_where_the_last_left() -> None:
    run_id = new_run("live", "one")
    first = begun(run_id)
    write(first, "1", 0.25)
    first.leave()
    second = begun(run_id)
    points = {point.key: (point.value, point.step) for point in second.next_metrics({"a": Score(value=0.75)}, 2)}
    assert points["a/mean"] == (0.5, 1)
    second.append(pd.DataFrame({"id": ["2"], "a": [7.0], "a_status": ["ok"]}), NO_ITEMS)
    second.publish()
    assert ids(run_id) == ["1", "2"]


def test_two_that_have_the_run_from_before_keep_it_as_a_part() -> None:
    run_id = run_with_a_row()
    first = LiveRun(run_id)
    second = LiveRun(run_id)
    second._parts._set(second._parts.id, "0")  # it came at the same time
    first.begin({})
    second.begin({})
    write(first, "1")
    write(second, "2")
    assert ids(run_id) == ["0", "1", "2"]


def test_a_run_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(RagMetricsError, match="cannot be written"):
        LiveRun("0" * 32).check()
    with pytest.raises(RagMetricsError):
        add_feedback("tr-0", "a", Score(value=1.0))


class Disturbed(RunWriter):
    """Each time that the tables, or the mark that they are one process's own, are written, something else happens."""

    def __init__(self, run_id: str, happens: Callable[[], None], *, tables: bool = True) -> None:
        super().__init__(run_id)
        self.happens = happens
        self.on_tables = tables

    def files(self, files: Mapping[str, Content], tables: Collection[str] = ()) -> None:
        super().files(files, tables)
        if tables and self.on_tables:
            self.happens()

    def tags(self, tags: Mapping[str, object]) -> None:
        super().tags(tags)
        if not self.on_tables and any(str(value).startswith("main:") for value in tags.values()):
            self.happens()


def test_one_that_comes_while_the_tables_are_written_is_in_them() -> None:
    run_id = new_run("live", "one")
    first, second = begun(run_id), LiveRun(run_id)

    def come() -> None:
        if not second.begun:
            second.begin({})
            write(second, "2")

    first._parts._writer = Disturbed(run_id, come)
    write(first, "1")
    assert ids(run_id) == ["1", "2"]


def test_one_that_comes_while_another_takes_the_rows_over_leaves_them_to_both() -> None:
    run_id = run_with_a_row()
    first, second = LiveRun(run_id), LiveRun(run_id)

    def come() -> None:
        if not second.begun:
            second.begun = True
            second._parts._set(second._parts.id, "0")

    first._parts._writer = Disturbed(run_id, come, tables=False)
    first.begin({})
    assert first.rows == 0
    second.begin({})
    write(first, "1")
    write(second, "2")
    assert ids(run_id) == ["0", "1", "2"]


def test_tables_that_others_write_all_the_time_are_left_for_later() -> None:
    run_id = new_run("live", "one")
    live = begun(run_id)
    times: list[int] = []

    def another_writes() -> None:
        times.append(len(times))
        live._parts._set("other", f"part:{len(times)}")

    live._parts._writer = Disturbed(run_id, another_writes)
    with pytest.raises(RagMetricsError, match="written by other processes too"):
        write(live, "1")
    live._parts._writer = RunWriter(run_id)
    live.publish()
    assert ids(run_id) == ["1"]


def test_one_that_ended_before_it_wrote_what_it_said_has_no_rows() -> None:
    run_id = new_run("live", "one")
    live = begun(run_id)
    live._parts._set("gone", "main:3")
    write(live, "1")
    assert ids(run_id) == ["1"]
    assert mlflow.get_run(run_id).data.tags["ragmetrics.part.gone"] == "0"


def test_one_that_left_and_comes_back_keeps_what_another_wrote_meanwhile() -> None:
    run_id = new_run("live", "one")
    first = begun(run_id)
    write(first, "1")
    second = begun(run_id)
    write(second, "2")
    write(first, "3")
    first.leave()
    second.leave()
    write(first, "4")
    third = begun(run_id)
    write(third, "5")
    assert ids(run_id) == ["1", "2", "3", "4", "5"]
