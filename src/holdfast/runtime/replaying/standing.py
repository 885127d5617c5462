"""What a partition has beside its agents and outputs, compared where the history ends: which
actions were settled, which dead letters redriven, which calls are open, what was sent."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.engine.port import View
from holdfast.runtime.replaying.replay import Replay
from holdfast.stepping.commit import Call, Fate, Head

ATTEMPTS = 100  # of a partition that commits meanwhile
_ALL = 2**62


class Standing(NamedTuple):
    fates: list[Fate]
    fates_since: float  # earlier ones may be past retention
    redriven: set[int]
    calls: dict[str, Call]
    sent_next: dict[int, int]


class Unequal(NamedTuple):
    agent: str
    what: str
    committed: object
    replayed: object


def read_standing(view: View) -> tuple[Head, Standing | None]:
    """As of one commit, and its head; None if there was a commit at every attempt."""
    head = view.head()
    for _ in range(ATTEMPTS):
        before = head
        oldest = view.actions(0, 1)
        cut = not oldest or oldest[0].first > 0
        found = Standing(
            view.fates(),
            (oldest[0].now if oldest else float("inf")) if cut else 0.0,
            {letter.id for letter, redriven in view.letters() if redriven},
            {call.id: call for call in view.calls(0, _ALL)},
            view.sent_next(),
        )
        head = view.head()
        if head.commits == before.commits:
            return head, found
    return head, None


def first_unequal(was: Standing, replay: Replay) -> Unequal | None:
    looks = (look(was, replay) for look in (_fates, _letters, _calls, _sent))
    return next((found for found in looks if found is not None), None)


def _fates(was: Standing, replay: Replay) -> Unequal | None:
    kept = {(one.id, one.kind): one for one in was.fates}
    made = {(one.id, one.kind): one for one in replay.fates()}
    for name in (*made, *kept):
        ours, theirs = kept.get(name), made.get(name)
        if ours is None and theirs is not None and theirs.now < was.fates_since:
            continue
        if ours != theirs:
            pair = [None if one is None else one.why for one in (ours, theirs)]
            return Unequal("", f"whether {name[0]} was {name[1]}", *pair)
    return None


def _letters(was: Standing, replay: Replay) -> Unequal | None:
    made = {letter.id: (letter, redriven) for letter, redriven in replay.letters()}
    for id, (letter, redriven) in made.items():
        if redriven != (id in was.redriven):
            who, what = f"{letter.agent}/{letter.key}", f"whether dead letter {id} was redriven"
            return Unequal(who, what, id in was.redriven, redriven)
    return None


def _calls(was: Standing, replay: Replay) -> Unequal | None:
    made = replay.calls()
    for id in (*made, *was.calls):
        ours, theirs = was.calls.get(id), made.get(id)
        if ours != theirs:
            one = ours or theirs
            assert one is not None
            shown = [None if each is None else _shown(each) for each in (ours, theirs)]
            return Unequal(f"{one.agent}/{one.key}", f"the open call {id}", *shown)
    return None


def _shown(call: Call) -> str:
    return (
        f"{call.function}, {len(call.arguments)} bytes of arguments, timeout {call.timeout:g}, "
        f"retries {call.retries}"
    )


def _sent(was: Standing, replay: Replay) -> Unequal | None:
    made = replay.stepper.sent_next
    for number in sorted({*was.sent_next, *made}):
        pair = was.sent_next.get(number, 1), made.get(number, 1)
        if pair[0] != pair[1]:
            what = f"the number of the next message to partition {number}"
            return Unequal("", what, *pair)
    return None
