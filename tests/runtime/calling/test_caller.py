"""Goal: the caller runs every open call, in bounded memory, and the reply reaches whoever called,
whatever fails on the way. Executors, clock and worker are turned by hand."""

from collections.abc import Sequence

import msgspec
import pytest

from holdfast.engine.port import Parcel, Taken
from holdfast.errors import Busy, DiskFull
from holdfast.runtime.calling import lane
from holdfast.runtime.calling.breaker import ATTEMPTS_TO_JUDGE, OPEN_SECONDS
from holdfast.runtime.calling.lane import PAUSE_SECONDS_MAX, Work
from holdfast.runtime.calling.port import LOST, Outcome
from holdfast.runtime.rescaling import Rescale
from holdfast.runtime.worker import Worker
from tests.runtime.calling.callers import Client, Please, Rig, fleet


def test_a_reply_comes_back_once_and_closes_the_call() -> None:
    rig = Rig()
    rig.please("a", "tell", "hello")
    rig.turn()
    (attempt,) = rig.hands.running.values()
    assert (attempt.name, attempt.reply) == ("tell", "Told")
    assert attempt.call == "clients/Client/a/1/call1"
    assert rig.open_calls() == 1
    rig.hands.end_all()
    rig.turn()
    assert rig.client().told == ["clients/Client/a/1/call1"]
    assert rig.open_calls() == 0
    assert not rig.caller.busy


def test_at_most_concurrency_run_and_the_rest_wait_in_order() -> None:
    rig = Rig()
    rig.please("a", "tell", "hello", times=10)
    rig.turn()
    assert len(rig.hands.running) == 4
    while rig.hands.running:
        rig.hands.end(next(iter(rig.hands.running)))
        rig.turn()
    assert rig.client().told == [f"clients/Client/a/1/call{n}" for n in range(1, 11)]


def test_one_functions_queue_does_not_hold_up_another() -> None:
    rig = Rig()
    rig.please("a", "sleep", 1.0, times=50)
    rig.please("a", "tell", "quick")
    rig.please("a", "tell_async", "quick")
    rig.turn()
    assert rig.hands.names() == ["sleep"] * 4 + ["tell"]
    assert rig.async_hands.names() == ["tell_async"]


def test_calls_that_do_not_fit_into_memory_wait_in_the_table_and_hold_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane, "CALLS_HELD_MAX", 10)
    rig = Rig(partitions=3)
    for n in range(30):
        rig.please(f"k-{n}", "sleep", 1.0, times=9)
        rig.please(f"k-{n}", "tell", "between", times=1)
    rig.turn()
    (sleeping,) = [s for s in rig.caller.status() if s.function == "sleep"]
    assert (sleeping.running, sleeping.waiting) == (4, 6)
    turns = 0
    while rig.hands.running:
        assert all(s.running + s.waiting <= 10 for s in rig.caller.status())
        rig.hands.end_all()
        rig.turn()
        turns += 1
    assert rig.open_calls() == 0
    for n in range(30):
        assert len(rig.client(f"k-{n}").told) == len(set(rig.client(f"k-{n}").told)) == 10


def test_large_arguments_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "ARGUMENTS_HELD_BYTES_MAX", 10_000)
    rig = Rig()
    rig.please("a", "tell", "x" * 4_000, times=20)
    rig.turn()
    (status,) = rig.caller.status()
    assert status.running + status.waiting == 3
    while rig.hands.running:
        rig.hands.end_all()
        rig.turn()
    assert len(rig.client().told) == 20


def test_an_attempt_that_takes_too_long_is_killed_and_tried_again() -> None:
    rig = Rig()
    rig.please("a", "sleep", 60.0, timeout=5.0, retries=1, backoff=1.0)
    rig.turn()
    rig.turn(4.9)
    assert rig.hands.killed == []
    rig.turn(0.2)
    assert rig.hands.killed == [1]
    rig.turn(0.9)
    assert not rig.hands.running
    rig.turn(0.2)
    assert len(rig.hands.running) == 1
    rig.turn(5.1)
    error = "sleep took longer than 5 s and was ended"
    assert rig.client().failures == [("sleep", "timeout", error, 2)]


def test_the_pause_doubles_and_the_attempts_are_counted() -> None:
    rig = Rig()
    rig.please("a", "tell", "x", retries=3, backoff=2.0)
    rig.turn()
    for pause in (2.0, 4.0, 8.0):
        rig.hands.end_all("error")
        rig.turn()
        rig.turn(pause - 0.1)
        assert not rig.hands.running
        rig.turn(0.2)
        assert len(rig.hands.running) == 1
    rig.hands.end_all("error")
    rig.turn()
    assert rig.client().failures == [("tell", "error", "on purpose", 4)]


def test_pauses_have_an_end() -> None:
    rig = Rig()
    rig.please("a", "tell", "x", retries=3_000, backoff=1.0)
    call = rig.engine.view(0).calls(0, 1)[0]
    rig.turn()
    (work,) = rig.caller._running.values()
    assert Work(call, work.lane, attempts=2_500).pause_seconds == PAUSE_SECONDS_MAX
    patient = call._replace(backoff=7_200.0)
    assert Work(patient, work.lane, attempts=9).pause_seconds == 7_200.0


def test_a_success_after_failures_is_a_success() -> None:
    rig = Rig()
    rig.please("a", "tell", "x", retries=2)
    rig.turn()
    rig.hands.end_all("died")
    rig.turn()
    rig.turn(0.1)
    rig.hands.end_all()
    rig.turn()
    assert rig.client() == Client(told=["clients/Client/a/1/call1"])


def test_what_would_only_happen_again_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """The log has it too: an agent without a handler for CallFailed would hide it."""
    rig = Rig()
    rig.please("a", "tell", "x", retries=5)
    rig.turn()
    rig.hands.end(1, "too-large", again=False)
    rig.turn()
    assert rig.reasons() == [("too-large", 1)]
    assert caplog.messages[0].startswith("call clients/Client/a/1/call1: too-large: ")


def test_a_lost_attempt_does_not_count() -> None:
    rig = Rig()
    rig.please("a", "tell", "x", retries=0)
    rig.turn()
    for _ in range(5):
        rig.hands.end_all(LOST)
        rig.turn()
    rig.hands.end_all("error")
    rig.turn()
    assert rig.reasons() == [("error", 1)]


def test_the_breaker_opens_and_a_probe_closes_it() -> None:
    rig = Rig()
    rig.please("a", "tell", "x", times=ATTEMPTS_TO_JUDGE)
    rig.turn()
    while rig.hands.end_all("error"):
        rig.turn()
    assert rig.caller.status()[0].breaker == "open"
    rig.please("a", "tell", "x", retries=1, backoff=1.0)
    rig.please("a", "sleep", 1.0)
    rig.turn()
    assert rig.hands.names() == ["sleep"], "another function is none of its business"
    rig.turn(1.1)
    assert rig.reasons()[-1] == ("circuit-open", 2)
    rig.please("a", "tell", "probe", times=2)
    rig.turn(OPEN_SECONDS)
    assert rig.hands.names() == ["sleep", "tell"]
    assert rig.reasons()[-1] == ("circuit-open", 1), "one probe, no more"
    rig.hands.end_all()
    rig.turn()
    assert rig.caller.status()[1].breaker == "closed"


def test_a_function_this_program_does_not_have() -> None:
    rig = Rig()
    rig.please("a", "tell", "x", retries=5)
    without = dict(fleet.calls)
    del without["tell"]
    try:
        before, fleet.calls = fleet.calls, without
        rig.turn()
    finally:
        fleet.calls = before
    ((function, reason, error, attempts),) = rig.client().failures
    assert (function, reason, attempts) == ("tell", "unknown-function", 0)
    assert error == "this program has no function tell: name it in Fleet(calls=[…])"


def test_a_reply_of_a_wrong_type_is_a_failure_and_not_a_dead_letter() -> None:
    rig = Rig()
    rig.please("a", "misfit")
    rig.turn()
    del rig.hands.running[1]
    rig.hands.tell(Outcome(1, body=msgspec.msgpack.encode([7])))
    rig.turn()
    assert rig.reasons() == [("wrong-reply", 1)]
    assert rig.live.dead_letters() == []


def test_whoever_comes_after_runs_again_what_is_open() -> None:
    rig = Rig()
    rig.please("a", "tell", "x", times=3)
    rig.turn()
    rig.hands.end(1)
    rig.turn()
    rig.hands.running.clear()
    rig.caller = rig.new_caller()
    rig.turn()
    assert sorted(a.call for a in rig.hands.running.values()) == [
        "clients/Client/a/1/call2",
        "clients/Client/a/1/call3",
    ]
    rig.hands.end_all()
    rig.turn()
    assert rig.client().told == [f"clients/Client/a/1/call{n}" for n in (1, 2, 3)]


def test_two_callers_at_once_give_one_reply() -> None:
    """For a moment there may be two: one that is about to be ended, and its successor."""
    rig = Rig()
    rig.please("a", "tell", "x")
    rig.turn()
    first, rig.caller = rig.caller, rig.new_caller()
    first_attempt = rig.hands.running.pop(1)
    rig.turn()
    rig.hands.end_all()
    rig.turn()
    rig.hands.running[1] = first_attempt
    rig.hands.end(1)
    first.tick()
    rig.fold()
    assert rig.client().told == ["clients/Client/a/1/call1"]


class Refusing:
    """An inbox that refuses some appends, for a while."""

    def __init__(self, rig: Rig, *, whole: bool) -> None:
        self._append = rig.engine.append
        self._whole = whole
        self.refuses = True
        self.tries = 0
        rig.engine.append = self.append  # type: ignore[method-assign]

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = 0.0
    ) -> list[Taken | Exception]:
        if not self.refuses or parcels[0].external:
            return self._append(partition, parcels, wait_seconds)
        self.tries += 1
        if self._whole:
            raise Busy("somebody else has its turn")
        return [DiskFull("no room") for _ in parcels]


@pytest.mark.parametrize("whole", [True, False])
def test_a_refused_reply_is_sent_again(whole: bool) -> None:
    rig = Rig()
    inbox = Refusing(rig, whole=whole)
    rig.please("a", "tell", "x", times=3)
    rig.turn()
    rig.hands.end_all()
    for _ in range(20):
        rig.turn(0.5)
    assert 5 <= inbox.tries <= 20, "not at every tick"
    assert rig.client().told == []
    inbox.refuses = False
    rig.turn(2.0)
    assert len(rig.client().told) == 3
    assert rig.open_calls() == 0


def test_functions_rest_while_their_replies_find_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.runtime.calling.answers.ANSWERS_WAITING_MAX", 8)
    rig = Rig()
    inbox = Refusing(rig, whole=False)
    rig.please("a", "tell", "x", times=100)
    done = 0
    for _ in range(50):
        rig.turn(0.5)
        done += rig.hands.end_all()
    assert done <= 8 + 4
    inbox.refuses = False
    for _ in range(200):
        rig.turn(2.0)
        rig.hands.end_all()
    assert len(rig.client().told) == 100


def test_a_reply_goes_to_whoever_owns_the_key_by_then() -> None:
    """One is answered before a rescaling, some while the inboxes are closed, the rest after it."""
    rig = Rig(partitions=2)
    for n in range(8):
        rig.please(f"k-{n}", "tell", "x", times=2)
        rig.please(f"k-{n}", "sleep_async", 1.0)
    rig.turn()
    rig.hands.end(next(iter(rig.hands.running)))
    rig.turn()
    rig.worker.partitions.clear()
    rig.engine._granted.clear()  # type: ignore[attr-defined]
    job = Rescale(fleet, rig.engine, 3)
    while not job._closed:
        job.step()
    rig.hands.end_all()
    rig.caller.tick()
    assert rig.caller._answers.trouble is not None, "a closed inbox refuses replies"
    while not job.step():
        pass
    rig.worker = Worker(fleet, rig.engine, rig.engine.catalog.layout.numbers)
    rig.fold()
    for _ in range(20):
        rig.turn(2.0)
        rig.hands.end_all()
        rig.async_hands.end_all()
    for n in range(8):
        told = [f"clients/Client/k-{n}/{call}" for call in ("1/call1", "1/call2", "2/call1")]
        assert sorted(rig.client(f"k-{n}").told) == told
    assert rig.open_calls() == 0
    attempts = {each.function: each.attempts for each in rig.caller.status()}
    assert attempts == {"tell": 16, "sleep_async": 8}, "what was known before is not run again"


def test_looks_become_rare_when_nothing_comes() -> None:
    rig = Rig()
    looks = 0
    before = rig.engine.view

    def counted(number: int):  # type: ignore[no-untyped-def]
        nonlocal looks
        looks += 1
        return before(number)

    rig.engine.view = counted  # type: ignore[method-assign,assignment]
    for _ in range(10_000):
        rig.now += 0.001
        rig.caller.tick()
    assert looks < 60, "ten seconds, four looks a second"
    rig.live.send(Client, "a", Please("tell", ["x"]))
    rig.fold()
    rig.now += rig.caller.idle_seconds()
    rig.caller.tick()
    assert rig.hands.running
