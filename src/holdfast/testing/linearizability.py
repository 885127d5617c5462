"""Linearizability: can one order of all operations explain what every client was told?

A history is what clients did to one key, with the times at which each call began and returned. It
is right if all operations can be put into one order such that, applied one after the other to a
sequential model, each gives the result its client got, and the order respects time as follows.

- `ask` is linearizable: it takes effect once, at some moment between its call and its return.
- `send` is acknowledged when it is durable, not when it is folded. Asks and sends that are called
  after the acknowledgement go behind it in the inbox, so it has its place in the order between
  call and acknowledgement too. Its result says nothing and is not compared.
- `state` reads a committed prefix of the order, and nothing called after it returned. Acknowledged
  sends may be missing from it, as they may not be folded yet, except those whose receipt it names
  with `after`, and all that comes before them. Answered asks are committed. `reads="session"`
  demands what every engine has to give: a client does not miss its own answered asks and does not
  go back behind its own earlier reads. `reads="committed"` demands it of all clients together: no
  read misses what was answered to anybody, or read by anybody, before it was called. That is more
  than is promised, but true where all processes read one state file, as with SQLite.
- An operation without a return (a timeout, a client that died) may have taken effect at any time
  after its call, or not at all. A read without a return says nothing.

All of this is a partial order, so the check is a search for a linear extension of it which the
model accepts, depth first, where no configuration (operations done, state reached) is tried twice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Generic, Literal, TypeVar

from holdfast.errors import UsageError

State = TypeVar("State", bound=Hashable)
Reads = Literal["committed", "session"]
CONFIGURATIONS_MAX = 1_000_000  # then the check gives up and says so
_LOOK_AHEAD = 8  # about as many answers as there are clients
_LINES_SHOWN = 12
_CHARACTERS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of one client. `client` is one process: what starts again is another client."""

    name: str
    client: str
    kind: Literal["ask", "send", "state"]
    call: object  # what the model applies
    invoked: float
    returned: float | None = None
    result: object = None
    after: tuple[str, ...] = ()  # state only: names of the sends and asks it has to include

    def __str__(self) -> str:
        told = "…" if self.returned is None else _shortened(self.result)
        ended = "never" if self.returned is None else f"{self.returned:.6f}"
        after = f" after {', '.join(self.after)}" if self.after else ""
        call = f"{self.kind} {self.call!r}{after} -> {told}"
        return f"{self.name} [{self.invoked:.6f} to {ended}] {self.client}: {call}"


class Model(ABC, Generic[State]):
    """What the key is, without concurrency. States are compared and hashed, results compared."""

    initial: State

    @abstractmethod
    def apply(self, state: State, call: object) -> tuple[State, object]:
        """The state after the call, and what the caller is told."""

    def missed(self, state: State, call: object, result: object) -> bool:
        """Whether neither this state nor any that can follow gives this result.

        False is always right. A better answer, as where states count their updates, keeps the
        search short when many outcomes are unknown.
        """
        return False


class Undecided(Exception):
    """Too many configurations to say yes or no."""


def find_order(
    history: Sequence[Operation], model: Model[State], *, reads: Reads = "committed"
) -> list[Operation] | None:
    """An order that explains the history, with those unknown operations it needs; None if none."""
    _check(history)
    return _Search(history, model, reads).run()


def violation(
    history: Sequence[Operation], model: Model[State], *, reads: Reads = "committed"
) -> str | None:
    """None if the history is right, else why not: the smallest prefix that nothing explains."""
    _check(history)
    try:
        if _Search(history, model, reads).run() is not None:
            return None
        return _explanation(history, model, reads)
    except Undecided:
        return (
            f"undecided after {CONFIGURATIONS_MAX:,} configurations of {len(history)} operations: "
            "record fewer on one key, or let results tell more about the state"
        )


def _check(history: Sequence[Operation]) -> None:
    if len({o.name for o in history}) != len(history):
        raise UsageError("two operations of one name: give each its own")
    ends = {o.name: o.returned for o in history if o.kind != "state" and o.returned is not None}
    for operation in history:
        if operation.returned is not None and operation.returned < operation.invoked:
            raise UsageError(f"{operation}: returned before it was called: use one clock for all")
        for name in operation.after:
            if operation.kind != "state" or ends.get(name, math.inf) > operation.invoked:
                raise UsageError(
                    f"{operation}: only a state is after something, and only after a send or ask "
                    "that had returned before it was called"
                )


_Path = tuple[int, "_Path"] | None


class _Search(Generic[State]):
    """Sets of operations are the bits of an int: 1 << the place in `operations`."""

    def __init__(self, history: Sequence[Operation], model: Model[State], reads: Reads) -> None:
        known = [o for o in history if not (o.kind == "state" and o.returned is None)]
        self.operations = sorted(known, key=_end)
        self.model = model
        self.before = _predecessors(self.operations, reads)
        self.following = _followers(self.before)
        self.due = _mask(o.returned is not None for o in self.operations)
        self.told = self.due & _mask(o.kind != "send" for o in self.operations)

    def run(self) -> list[Operation] | None:
        """Depth first. `free` are operations not done of which all that come before are."""
        free = _mask(not before for before in self.before)
        waiting: list[tuple[int, int, State, _Path]] = [(0, free, self.model.initial, None)]
        tried: set[tuple[int, State]] = set()
        while waiting:
            done, free, state, path = waiting.pop()
            if done & self.due == self.due:
                return self._unwound(path)
            if (done, state) in tried:
                continue
            tried.add((done, state))
            if len(tried) > CONFIGURATIONS_MAX:
                raise Undecided
            if self._hopeless(done, state):
                continue
            for place, following in reversed(self._branches(free, state)):
                waiting.append((*self._take(place, done, free), following, (place, path)))
        return None

    def _take(self, place: int, done: int, free: int) -> tuple[int, int]:
        done |= 1 << place
        free ^= 1 << place
        for each in self.following[place]:
            if not self.before[each] & ~done:
                free |= 1 << each
        return done, free

    def _hopeless(self, done: int, state: State) -> bool:
        """Whether it is too late for one of the next answers: all have to come at some time."""
        return any(
            self.model.missed(state, operation.call, operation.result)
            for place in islice(_places(self.told & ~done), _LOOK_AHEAD)
            for operation in [self.operations[place]]
        )

    def _branches(self, free: int, state: State) -> list[tuple[int, State]]:
        """What may come next. Answers tell most, so they go first, and unknown outcomes last."""
        answers, sends, unknown = [], [], []
        for place in _places(free):
            operation = self.operations[place]
            following, result = self.model.apply(state, operation.call)
            if operation.returned is None:
                if following != state:
                    unknown.append((place, following))
            elif operation.kind == "send":
                sends.append((place, following))
            elif result == operation.result:
                if operation.kind == "state":
                    return [(place, state)]  # it changes nothing, so later is never better
                answers.append((place, following))
        return answers + sends + unknown

    def _unwound(self, path: _Path) -> list[Operation]:
        order = []
        while path is not None:
            place, path = path
            order.append(self.operations[place])
        return order[::-1]


def _end(operation: Operation) -> float:
    return math.inf if operation.returned is None else operation.returned


def _mask(members: Iterable[bool]) -> int:
    return sum(1 << place for place, member in enumerate(members) if member)


def _places(operations: int) -> Iterator[int]:
    while operations:
        lowest = operations & -operations
        yield lowest.bit_length() - 1
        operations ^= lowest


def _predecessors(operations: Sequence[Operation], reads: Reads) -> list[int]:
    """For each operation the set of those that have to come before it."""
    ends = [_end(operation) for operation in operations]
    folded = _mask(o.kind != "send" for o in operations)
    of_client: dict[str, int] = {}
    for place, operation in enumerate(operations):
        of_client[operation.client] = of_client.get(operation.client, 0) | 1 << place
    places = {operation.name: place for place, operation in enumerate(operations)}
    result = []
    for operation in operations:
        before = (1 << bisect_left(ends, operation.invoked)) - 1
        if operation.kind == "state":
            before &= folded if reads == "committed" else folded & of_client[operation.client]
            for name in operation.after:
                before |= 1 << places[name]
        result.append(before)
    return result


def _followers(before: Sequence[int]) -> list[list[int]]:
    """For each operation those that may become free when it is done: its direct followers."""
    result: list[list[int]] = [[] for _ in before]
    for place, rest in enumerate(before):
        while rest:
            last = rest.bit_length() - 1
            result[last].append(place)
            rest &= ~(before[last] | 1 << last)  # they are done when `last` is
    return result


def _explanation(history: Sequence[Operation], model: Model[State], reads: Reads) -> str:
    """Prefixes of a right history are right, so the first return that breaks it is bisected."""
    ends = sorted({o.returned for o in history if o.returned is not None})
    good, bad = -1, len(ends) - 1  # indexes of the last prefix known right, the first known wrong
    order: list[Operation] = []
    while bad - good > 1:
        middle = (good + bad) // 2
        found = _Search(_cut(history, ends[middle]), model, reads).run()
        if found is None:
            bad = middle
        else:
            good, order = middle, found
    return _text(history, model, ends[bad], order)


def _cut(history: Sequence[Operation], end: float) -> list[Operation]:
    """What had been seen at a moment: what had not returned then may have happened or not."""
    return [o if _end(o) <= end else replace(o, returned=None) for o in history]


def _text(
    history: Sequence[Operation], model: Model[State], end: float, order: Sequence[Operation]
) -> str:
    state = model.initial
    used = {operation.name for operation in order}
    for operation in order:
        state, _ = model.apply(state, operation.call)
    culprits = [o for o in history if o.returned == end]
    pending = [
        o
        for o in history
        if o.kind != "state" and o.invoked <= end < _end(o) and o.name not in used
    ]
    completed = sum(o.returned is not None and o.returned <= end for o in history)
    return "\n".join(
        [
            f"no order explains the first {completed} of {len(history)} operations; without the "
            "last of them to return there is one:",
            *_lines(order),
            f"which leads to {_shortened(state)}. But then returned",
            *_lines(culprits),
            "and these may have taken effect by then, or not:",
            *(_lines(pending) or ["  none"]),
        ]
    )


def _shortened(value: object) -> str:
    """Of a long value mostly the end: that is where states differ."""
    text = repr(value)
    return text if len(text) <= _CHARACTERS_SHOWN else f"{text[:20]} … {text[-60:]}"


def _lines(operations: Sequence[Operation]) -> list[str]:
    left_out = len(operations) - _LINES_SHOWN
    lines = [f"  {operation}" for operation in operations[-_LINES_SHOWN:]]
    return [f"  … {left_out} before", *lines] if left_out > 0 else lines
