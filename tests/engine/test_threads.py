from __future__ import annotations

import contextvars
import os
import threading
import time
from typing import Any

import pytest

from mlflow_ragmetrics.engine.threads import Slots, ThreadTimeoutError, Workers, pause, run_in_thread, start_thread
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError


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
    woken: list[str] = []
    ran: list[int] = []

    def waits() -> None:
        began.set()
        try:
            pause(30.0)
        except JudgeError as error:
            woken.append(error.code)

    workers: Workers[None] = Workers(Slots(1))
    workers.submit(waits)
    workers.submit(lambda: ran.append(1))
    began.wait(5)
    workers.close()
    deadline = time.monotonic() + 5
    while not woken and time.monotonic() < deadline:
        time.sleep(0.005)
    assert woken == ["interrupted"]
    assert ran == []


_VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("outside", default="nothing")


def test_results_and_errors_come_back_and_the_context_does_not_go_in() -> None:
    _VARIABLE.set("something")
    assert run_in_thread(_VARIABLE.get, 5.0) == "nothing"
    with pytest.raises(ZeroDivisionError):
        run_in_thread(lambda: 1 / 0, 5.0)


def test_an_action_that_hangs_on_its_daemon_thread_holds_up_nobody() -> None:
    assert run_in_thread(threading.current_thread, 5.0).daemon
    gate = threading.Event()
    began = time.perf_counter()
    with pytest.raises(ThreadTimeoutError, match=r"0\.05 s"):
        run_in_thread(lambda: gate.wait(30), 0.05)
    assert time.perf_counter() - began < 10
    assert run_in_thread(lambda: "another", 5.0) == "another"
    gate.set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    start_thread(lambda: time.sleep(0.5), name="ours")
    run_in_thread(lambda: None, 5.0)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if run_in_thread(lambda: 7, 5.0) == 7 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_was_given_up_keeps_its_slot_until_it_ends() -> None:
    gate = threading.Event()
    slots = Slots(1)
    workers: Workers[str] = Workers(slots)

    def job() -> str:
        with pytest.raises(ThreadTimeoutError, match="no reply"):
            run_in_thread(lambda: gate.wait(30), 0.02)
        with pytest.raises(ThreadTimeoutError, match=r"no free slot within 0\.02 s"):
            run_in_thread(lambda: None, 0.02)
        gate.set()
        return run_in_thread(lambda: "free again", 10.0)

    workers.submit(job)
    assert workers.finished() == ["free again"]
    workers.close()
    deadline = time.monotonic() + 5
    while (slot := slots.take(0.1)) is None and time.monotonic() < deadline:
        pass
    assert slot is not None
    assert slots.take(0.01) is None  # one slot, released once


def test_a_worker_waits_for_a_slot_that_others_hold() -> None:
    slots = Slots(1)
    held = slots.take()
    workers: Workers[str] = Workers(slots)
    workers.submit(lambda: "had to wait")
    time.sleep(0.3)
    held.release()
    assert workers.finished() == ["had to wait"]
    held = slots.take(5)
    workers.submit(lambda: "never begins")
    workers.close()
    assert workers.in_flight == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_slots_that_the_parent_holds_are_free_in_a_forked_process() -> None:
    slots = Slots(1)
    assert slots.take() is not None
    child = os.fork()
    if child == 0:
        os._exit(0 if slots.take(0.1) is not None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
