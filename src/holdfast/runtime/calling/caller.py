"""The caller: runs the open calls of a fleet and sends the replies. `tick()` advances it once.

A plain loop object like the worker: engine, executors and clock are handed in. It holds nothing
durable. The table of open calls is the truth, and whoever comes after it runs again what is there:
each call at least once. A reply is taken once, by the fold.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from holdfast.engine.port import Engine
from holdfast.errors import HoldfastError
from holdfast.model.calls import CallFailed, CallOptions, digest_of, options_of
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.tracing import is_sampled
from holdfast.runtime.calling.answers import Answers
from holdfast.runtime.calling.lane import FunctionStatus, Lane, Work
from holdfast.runtime.calling.port import LOST, Attempt, Executor, Outcome, shorten
from holdfast.runtime.metering.samples import Histogram
from holdfast.runtime.schemas import agree, states_in_use
from holdfast.runtime.tracing.spans import Tracer, context_after, span_of_call
from holdfast.stepping.commit import Call
from holdfast.stepping.inputs import reply_frame
from holdfast.stepping.traces import trace_columns

CALLS_PER_LOOK = 64  # a page may have 64 MiB of arguments
LOOK_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25)  # between looks that found nothing
DEADLINES_KEPT = 1_000  # of attempts that have ended

_log = logging.getLogger("holdfast.caller")


class Caller:
    def __init__(
        self,
        fleet: FleetModel,
        engine: Engine,
        executors: Mapping[str, Executor],
        clock: Callable[[], float],
        wall: Callable[[], float] = time.time,
        tracer: Tracer | None = None,
    ) -> None:
        self._fleet = fleet
        self._tracer = tracer
        self._wall = wall
        self._engine = engine
        self._executors = dict(executors)
        self._clock = clock
        self._codebook, _ = agree(fleet, engine.catalog, states_in_use(engine))
        self._lanes: dict[str, Lane] = {}
        self._known: set[str] = set()  # ids of the calls in memory
        self._running: dict[int, Work] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._later: list[tuple[float, int, Work]] = []  # waits for its next attempt
        self._serial = 0
        self._answers = Answers(engine, clock)
        self._seen: dict[int, int] = {}  # partition -> the highest number read
        self._looks_in_vain = 0
        self._look_after = 0.0
        self.troubles: dict[int, str] = {}

    def tick(self) -> bool:
        """1 what ended, 2 what took too long, 3 what is new or due, 4 start, 5 reply.

        True if anything moved.
        """
        moved = self._hear()
        moved = self._end_late() or moved
        moved = self._take_due() or moved
        moved = self._look() or moved
        moved = self._refill() or moved
        moved = self._start() or moved
        return self._deliver() or moved

    def nudge(self) -> None:
        """There are new calls: look at once."""
        self._look_after = 0.0

    def idle_seconds(self) -> float:
        """How long nothing can happen, unless an executor or a nudge says so."""
        now = self._clock()
        dues = [self._look_after]
        dues += [heap[0][0] for heap in (self._deadlines, self._later) if heap]
        if self._answers.next_due is not None:
            dues.append(self._answers.next_due)
        return max(0.0, min(dues) - now)

    @property
    def busy(self) -> bool:
        return bool(self._known)

    def status(self) -> list[FunctionStatus]:
        now = self._clock()
        return [self._lanes[name].status(now) for name in sorted(self._lanes)]

    def answered_after(self) -> list[tuple[str, Histogram]]:
        """Of each function, for how long its calls were open."""
        return [(name, lane.answered_after) for name, lane in sorted(self._lanes.items())]

    # What is to be done.

    def _look(self) -> bool:
        """New calls of every partition that lives; those of lanes that are full stay behind."""
        now = self._clock()
        if now < self._look_after:
            return False
        layout = self._engine.catalog.layout
        numbers = [number for number in layout.numbers if self._engine.folds_here(number)]
        self._seen = {number: self._seen.get(number, 0) for number in numbers}
        found = 0
        for number in numbers:
            page = self._page(number, self._seen[number]) or []
            for call in page:
                self._take(call, number)
                self._seen[number] = call.number
            found += len(page)
        self._looks_in_vain = 0 if found else self._looks_in_vain + 1
        pause = LOOK_SECONDS[min(self._looks_in_vain, len(LOOK_SECONDS) - 1)]
        self._look_after = now if found >= CALLS_PER_LOOK else now + pause
        return found > 0

    def _page(self, number: int, after: int) -> list[Call] | None:
        """The open calls behind a number; None if they cannot be read now."""
        try:
            page = self._engine.view(number).calls(after, CALLS_PER_LOOK)
        except HoldfastError as trouble:
            if self.troubles.get(number) != str(trouble):
                _log.error("partition %d: its calls wait: %s", number, trouble)
            self.troubles[number] = str(trouble)
            return None
        self.troubles.pop(number, None)
        return page

    def _take(self, call: Call, number: int) -> None:
        lane = self._lane_of(call)
        if number in lane.left_behind or lane.full:
            lane.left_behind.setdefault(number, call.number - 1)
        elif call.id not in self._known:  # known: from before a rescaling
            self._known.add(call.id)
            lane.take(call)

    def _refill(self) -> bool:
        fetched = [self._fetch(lane) for lane in self._lanes.values() if lane.wants_more]
        return any(fetched)

    def _fetch(self, lane: Lane) -> bool:
        """What a lane had left behind, a page at a time, in order."""
        live = self._seen.keys()
        lane.left_behind = {n: after for n, after in lane.left_behind.items() if n in live}
        for number, after in list(lane.left_behind.items()):
            page = self._page(number, after)
            if page is None:
                continue
            seen = self._seen[number]
            for call in (each for each in page if each.number <= seen):
                if lane.full:
                    return True
                lane.left_behind[number] = call.number
                if call.function == lane.name and call.id not in self._known:
                    self._known.add(call.id)
                    lane.take(call)
            if len(page) < CALLS_PER_LOOK or page[-1].number >= seen:
                del lane.left_behind[number]  # what is behind it, `_look` finds
            return True
        return False

    def _lane_of(self, call: Call) -> Lane:
        lane = self._lanes.get(call.function)
        if lane is None or lane.function is None:
            function = self._fleet.calls.get(call.function)
            options = CallOptions() if function is None else options_of(function)
            executor = self._executors[options.kind]
            if lane is None:
                lane = self._lanes[call.function] = Lane(call.function, None, options, executor)
            lane.function, lane.options, lane.executor = function, options, executor
        return lane

    # Attempts.

    def _start(self) -> bool:
        started = False
        for lane in self._lanes.values():
            while lane.waiting and lane.running < lane.options.concurrency:
                if self._answers.full:
                    return started
                self._attempt(lane, lane.waiting.popleft())
                started = True
        return started

    def _attempt(self, lane: Lane, work: Work) -> None:
        call = work.call
        if lane.function is None:
            error = f"this program has no function {lane.name}: name it in Fleet(calls=[…])"
            self._failed(work, Outcome(0, "unknown-function", error, again=False))
            return
        self._serial += 1
        lane.attempts += 1
        work.attempts += 1
        if not lane.breaker.admits(self._serial, self._clock()):
            error = f"{lane.name} failed too often lately and is left alone for a while"
            self._failed(work, Outcome(0, "circuit-open", error))
            return
        self._running[self._serial] = work
        lane.running += 1
        lane.executor.start(
            Attempt(self._serial, call.id, lane.name, lane.function, call.arguments, call.reply)
        )

    def _hear(self) -> bool:
        heard = False
        for executor in self._executors.values():
            for serial in executor.begun():
                work = self._running.get(serial)
                if work is not None:
                    due = self._clock() + work.call.timeout
                    heapq.heappush(self._deadlines, (due, serial))
                    self._forget_deadlines()
            for outcome in executor.finished():
                work = self._running.pop(outcome.serial, None)
                if work is not None:
                    heard = True
                    self._ended(work, outcome)
        return heard

    def _forget_deadlines(self) -> None:
        """Most attempts end long before: their deadlines must not pile up until they are due."""
        if len(self._deadlines) > 2 * len(self._running) + DEADLINES_KEPT:
            self._deadlines = [each for each in self._deadlines if each[1] in self._running]
            heapq.heapify(self._deadlines)

    def _end_late(self) -> bool:
        ended = False
        now = self._clock()
        while self._deadlines and (
            self._deadlines[0][0] <= now or self._deadlines[0][1] not in self._running
        ):
            _, serial = heapq.heappop(self._deadlines)
            work = self._running.pop(serial, None)
            if work is not None:
                ended = True
                work.lane.executor.kill(serial)
                seconds = work.call.timeout
                error = f"{work.lane.name} took longer than {seconds:g} s and was ended"
                self._ended(work, Outcome(serial, "timeout", error))
        return ended

    def _ended(self, work: Work, outcome: Outcome) -> None:
        lane = work.lane
        lane.running -= 1
        if outcome.reason == LOST:
            lane.breaker.release(outcome.serial)
            work.attempts -= 1
            lane.waiting.appendleft(work)
            return
        read = self._read(work.call, outcome) if not outcome.reason else outcome
        lane.breaker.record(outcome.serial, isinstance(read, Event), self._clock())
        if isinstance(read, Event):
            self._reply(work, read)
        else:
            self._failed(work, read)

    def _failed(self, work: Work, outcome: Outcome) -> None:
        work.lane.failures += 1
        if outcome.again and work.attempts <= work.call.retries:
            self._serial += 1
            due = self._clock() + work.pause_seconds
            heapq.heappush(self._later, (due, self._serial, work))
        else:
            failure = _failure(work.call, outcome.reason, outcome.error, work.attempts)
            self._reply(work, failure)
            if outcome.reason != "circuit-open":  # the failures that opened it have been told
                _log.warning("call %s: %s: %s", work.call.id, outcome.reason, failure.error)

    def _take_due(self) -> bool:
        now = self._clock()
        taken = False
        while self._later and self._later[0][0] <= now:
            work = heapq.heappop(self._later)[2]
            work.lane.waiting.append(work)
            taken = True
        return taken

    # Replies.

    def _read(self, call: Call, outcome: Outcome) -> Event | Outcome:
        """The reply, or why it is none."""
        cls = self._fleet.events.get(call.reply)
        if cls is None:
            text = f"this program has no event {call.reply}"
        else:
            try:
                return msgspec.msgpack.decode(outcome.body, type=cls)
            except Exception as error:  # a class may check its fields with code of its own
                text = f"{call.function} returned a wrong {call.reply}: {error}"
        return Outcome(outcome.serial, "wrong-reply", text, again=False)

    def _reply(self, work: Work, event: Event) -> None:
        call = work.call
        digest = digest_of(call.function, call.arguments)
        try:
            frame = reply_frame(
                call.agent, call.key, call.id, call.function, digest, event, self._codebook
            )
            work.error = event.error if isinstance(event, CallFailed) else ""
        except HoldfastError as error:  # an event that cannot be stored as it is
            text = f"{call.function} returned a {call.reply} that cannot be stored: {error}"
            failure = _failure(call, "wrong-reply", text, work.attempts)
            frame = reply_frame(
                call.agent, call.key, call.id, call.function, digest, failure, self._codebook
            )
            work.error = failure.error
        frame.columns |= trace_columns(context_after(call), 1)
        self._answers.add(work, frame)

    def _deliver(self) -> bool:
        answered = self._answers.deliver()
        for work in answered:
            self._known.discard(work.call.id)
            work.lane.drop(work)
            now = self._wall()
            work.lane.answered_after.add(max(0.0, now - work.call.now))
            if self._tracer is not None and is_sampled(work.call.trace):
                made = partial(span_of_call, work.call, work.attempts, work.error, now)
                self._tracer.add(1, made)
        return bool(answered)


def _failure(call: Call, reason: str, error: str, attempts: int) -> CallFailed:
    return CallFailed(
        call=call.id, function=call.function, reason=reason, error=shorten(error), attempts=attempts
    )
