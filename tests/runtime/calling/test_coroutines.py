"""Goal: async functions run side by side in one process, and one that blocks is found and ended."""

import os
import signal

import pytest

from holdfast.runtime.calling import coroutines as executor
from holdfast.runtime.calling.port import LOST
from holdfast.runtime.calling.wire import LOOP_SECONDS_MAX
from tests.runtime.calling import functions as f
from tests.runtime.calling.attempts import Bench, coroutines, open_descriptors


@pytest.fixture(scope="module")
def bench() -> object:
    with coroutines() as made:
        yield made


def test_many_wait_at_once_in_one_process(bench: Bench) -> None:
    serials = [bench.start(f.sleep_async, 600.0) for _ in range(200)]
    for serial in serials:
        bench.until_begun(serial)
    assert len(bench.pids()) == 1
    assert not bench.outcomes.keys() & set(serials)
    assert bench.outcome(bench.start(f.sleep_async, 0.01)).reason == ""
    for serial in serials:
        bench.executor.kill(serial)


def test_replies_and_errors(bench: Bench) -> None:
    assert bench.text(f.tell_async, "hello").startswith("hello call-")
    outcome = bench.run(f.fail_async, "no route")
    assert outcome.reason == "error"
    assert outcome.error.startswith("ValueError: no route (functions.py, line")
    outcome = bench.run(f.tell_async, 7)
    assert (outcome.reason, outcome.again) == ("error", False)


def test_a_killed_attempt_is_cancelled_and_the_others_go_on(bench: Bench) -> None:
    beside = bench.start(f.sleep_async, 2.5)
    late = bench.start(f.sleep_async, 600.0)
    bench.until_begun(late)
    bench.executor.kill(late)
    assert bench.outcome(beside).reason == ""
    assert late not in bench.outcomes


def test_what_does_not_end_when_cancelled_ends_with_its_process() -> None:
    with coroutines() as bench:
        beside = bench.start(f.sleep_async, 600.0)
        stays = bench.start(f.stay_async)
        bench.until_begun(stays)
        bench.executor.kill(stays)
        assert bench.outcome(beside).reason == LOST
        assert bench.text(f.tell_async, "a new process").startswith("a new process")
        assert stays not in bench.outcomes


@pytest.mark.slow
def test_whoever_blocks_the_loop_is_named_and_the_others_are_not_blamed() -> None:
    with coroutines() as bench:
        beside = bench.start(f.sleep_async, 600.0)
        bench.until_begun(beside)
        blocks = bench.start(f.block_async, 600.0)
        outcome = bench.outcome(blocks)
        assert outcome.reason == "died"
        assert outcome.error.startswith(f"it blocked the event loop for {LOOP_SECONDS_MAX:g} s")
        assert bench.outcome(beside).reason == LOST


@pytest.mark.kill
def test_a_stopped_process_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SILENT_SECONDS_MAX", 1.0)
    with coroutines() as bench:
        serial = bench.start(f.sleep_async, 600.0)
        bench.until_begun(serial)
        (pid,) = bench.pids()
        os.kill(pid, signal.SIGSTOP)
        outcome = bench.outcome(serial)
        assert (outcome.reason, outcome.error) == ("died", "its process did not move for 1 s")


def test_a_death_is_everybodys() -> None:
    before = open_descriptors()
    with coroutines() as bench:
        beside = bench.start(f.sleep_async, 600.0)
        bench.until_begun(beside)
        serial = bench.start(f.die_async)
        assert bench.outcome(serial).error == "its process ended with exit code 9"
        assert bench.outcome(beside).reason == "died"
        assert bench.text(f.tell_async, "again").startswith("again")
    assert open_descriptors() == before
    assert bench.pids() == []


def test_an_error_that_cannot_be_encoded_is_told_at_once(bench: Bench) -> None:
    outcome = bench.run(f.fail_unencodable_async)
    assert (outcome.reason, outcome.error[:27]) == ("error", "FileNotFoundError: caf?.txt")


def test_a_function_that_forks_is_told_once_and_its_copy_is_no_host(bench: Bench) -> None:
    assert bench.text(f.fork_async, "one") == "one parent"
    for number in range(20):
        assert bench.text(f.tell_async, f"after {number}").startswith(f"after {number} ")
