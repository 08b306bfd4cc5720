from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from mlflow_ragmetrics.engine.threads import Slots, Workers, pause
from mlflow_ragmetrics.errors import InvalidOptionError


@pytest.mark.parametrize("limit", [1, 3, 8])
def test_no_more_jobs_run_at_once_than_the_limit_and_all_results_come(limit: int) -> None:
    lock = threading.Lock()
    running = most = 0

    def job(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1
        return number

    workers: Workers[int] = Workers(Slots(limit))
    for number in range(40):
        workers.submit(lambda number=number: job(number))
    results: list[int] = []
    while workers.in_flight:
        results += workers.finished()
    workers.close()
    assert sorted(results) == list(range(40))
    assert most == limit


def test_crews_that_share_slots_keep_to_one_limit_together() -> None:
    slots, lock = Slots(3), threading.Lock()
    running = most = 0

    def job() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1

    crews: list[Workers[None]] = [Workers(slots) for _ in range(4)]
    for crew in crews * 8:
        crew.submit(job)
    for crew in crews:
        while crew.in_flight:
            crew.finished()
        crew.close()
    assert most == 3


@pytest.mark.parametrize("limit", [0, -1, True, 2.5])
def test_slots_are_a_whole_number_from_one(limit: Any) -> None:
    with pytest.raises(InvalidOptionError, match="concurrency"):
        Slots(limit)


def test_lower_priorities_go_first_and_equal_ones_in_order() -> None:
    gate = threading.Event()
    order: list[str] = []
    workers: Workers[None] = Workers(Slots(1))
    workers.submit(lambda: (gate.wait(5), None)[1])
    workers.submit(lambda: order.append("handed out"))
    for name, priority in (("late", 9.0), ("first", 1.0), ("second", 1.0)):
        workers.submit(lambda name=name: order.append(name), priority)
    gate.set()
    while workers.in_flight:
        workers.finished()
    workers.close()
    assert order == ["handed out", "first", "second", "late"]


def test_closing_drops_what_has_not_begun_and_wakes_what_waits() -> None:
    began = threading.Event()
    woken: list[bool] = []
    ran: list[int] = []

    def waits() -> None:
        began.set()
        woken.append(pause(30.0))

    workers: Workers[None] = Workers(Slots(1))
    workers.submit(waits)
    workers.submit(lambda: ran.append(1))
    began.wait(5)
    workers.close()
    deadline = time.monotonic() + 5
    while not woken and time.monotonic() < deadline:
        time.sleep(0.005)
    assert woken == [True]
    assert ran == []


def test_a_pause_outside_a_crew_just_sleeps() -> None:
    began = time.perf_counter()
    assert pause(0.01) is False
    assert time.perf_counter() - began >= 0.01
