"""Spans, derived from what is committed; what becomes of them is a tracer's business."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from holdfast.model.effects import Traced
from holdfast.model.tracing import is_context, is_sampled, onward
from holdfast.stepping.commit import Call, Commit, Issued
from holdfast.stepping.frame import Frame
from holdfast.stepping.issued import issued_in
from holdfast.stepping.traces import NAME

if TYPE_CHECKING:
    from holdfast.stepping.compiled.following import TracedRows

ISSUED_BYTES_MAX = 1024 * 1024  # of a larger commit spans do not name their actions

Attribute: TypeAlias = str | int | Sequence[str]


class Span(NamedTuple):
    name: str
    kind: str  # consumer, client or producer
    given: str  # the context of its parent
    trace: str  # its own
    start: float
    end: float
    attributes: Mapping[str, Attribute]
    error: str = ""


class Tracer(Protocol):
    def add(self, count: int, make: Callable[[], Iterator[Span]]) -> None:
        """So many spans, made when they are wanted. Never waits: what is too much is dropped."""


class Committed(NamedTuple):
    """What spans are made of."""

    fleet: str
    partition: int
    number: int  # of the commit
    end: float
    traced: Sequence[Traced]  # those that are sampled, as all of `rows` are
    rows: Sequence[TracedRows]
    issued: Issued | None

    @classmethod
    def of(
        cls, fleet: str, partition: int, commit: Commit, rows: Sequence[TracedRows], end: float
    ) -> Committed:
        issued = commit.issued
        if issued is not None and len(issued.frame) > ISSUED_BYTES_MAX:
            issued = None
        sampled = [each for each in commit.traced if is_sampled(each.given)]
        return cls(fleet, partition, commit.head.commits, end, sampled, rows, issued)

    @property
    def size(self) -> int:
        return len(self.traced) + sum(len(rows.contexts) for rows in self.rows)

    def spans(self) -> Iterator[Span]:
        actions = self._actions()
        for each in chain(self.traced, *(rows.each() for rows in self.rows)):
            if not is_context(each.given):
                continue
            attributes: dict[str, Attribute] = {
                "holdfast.partition": self.partition,
                "holdfast.position": each.position,
                "holdfast.commit": self.number,
                "holdfast.agent": each.agent,
                "holdfast.key": each.key,
                "holdfast.state.version": each.version,
                "holdfast.event": each.event,
                "holdfast.origin": each.origin,
            }
            contexts = each.given, each.trace
            if each.trace in actions:
                attributes["holdfast.actions"] = actions[each.trace]
            name, end = f"{each.agent}.{each.event}", max(each.now, self.end)
            yield Span(name, "consumer", *contexts, each.now, end, attributes, each.error)

    def _actions(self) -> dict[str, list[str]]:
        """The ids of those that traced events issued, by the context they have."""
        found: dict[str, list[str]] = {}
        frame = None if self.issued is None else Frame.decode(self.issued.frame)
        if frame is not None and NAME in frame:
            for row in issued_in(self.fleet, frame):
                if row.trace:
                    found.setdefault(row.trace, []).append(row.id)
        return found


def context_after(call: Call) -> str:
    """Of its reply: a call that is run again has the same span."""
    return onward(call.trace, call.id)


def span_of_call(call: Call, attempts: int, error: str, end: float) -> Iterator[Span]:
    attributes: dict[str, Attribute] = {
        "holdfast.function": call.function,
        "holdfast.call": call.id,
        "holdfast.attempts": attempts,
        "holdfast.agent": call.agent,
        "holdfast.key": call.key,
    }
    times = call.now, max(call.now, end)
    yield Span(call.function, "client", call.trace, context_after(call), *times, attributes, error)
