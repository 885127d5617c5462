"""The same fleet on a Holdfast with one thing broken, named by the environment variable SABOTAGE.

For proof that the checker would notice. Workers load the fleet from here, clients import this
module; each of these breaks what its process does.
"""

import os
from collections import Counter
from collections.abc import Callable

from holdfast import Event, Receipt
from holdfast.engine.sqlite import inbox
from holdfast.engine.sqlite.state import SqliteState
from holdfast.model.context import Context
from holdfast.runtime.reading import Reading
from holdfast.runtime.waiting import Waiting
from holdfast.stepping.commit import Record
from tests.linearizability.registers import fleet

__all__ = ["SABOTAGES", "fleet"]
_seen: Counter[str] = Counter()


def _now_and_then(what: str, every: int) -> bool:
    _seen[what] += 1
    return _seen[what] % every == 0


def stale_answers() -> None:
    """A worker gives now and then the answer before to this agent's asks."""
    reply, last = Context.reply, dict[str, Event]()

    def wrong(self: Context, event: Event) -> None:
        before, last[self.key] = last.get(self.key, event), event
        reply(self, before if _now_and_then(self.key, 10) else event)

    Context.reply = wrong  # type: ignore[method-assign]


def lost_states() -> None:
    """Now and then a commit answers and moves on without the states it changed."""
    write = SqliteState._write

    def wrong(self: SqliteState, commit, letters, answers) -> None:  # type: ignore[no-untyped-def]
        if commit.delta and _now_and_then("commits", 5):
            commit.delta = b""
        write(self, commit, letters, answers)

    SqliteState._write = wrong  # type: ignore[method-assign]


def repeated_sends() -> None:
    """The inbox takes what it has taken before."""
    vars(inbox)["admit"] = lambda parcel, ledger, stamp, limits: None


def unread_receipts() -> None:
    """`state(after=…)` does not wait."""

    def wrong(self: Waiting, receipt: Receipt, *, timeout: float = 0.0) -> None: ...

    Waiting.wait_for = wrong  # type: ignore[method-assign]


def old_reads() -> None:
    """`state` is served from a cache every other time."""
    fresh, cache = Reading.record, dict[str, Record | None]()

    def wrong(self: Reading, agent: str, key: str) -> Record | None:
        if key not in cache or _now_and_then(key, 2):
            cache[key] = fresh(self, agent, key)
        return cache[key]

    Reading.record = wrong  # type: ignore[method-assign]


SABOTAGES: dict[str, Callable[[], None]] = {
    "stale answers": stale_answers,
    "lost states": lost_states,
    "repeated sends": repeated_sends,
    "unread receipts": unread_receipts,
    "old reads": old_reads,
}
if os.environ.get("SABOTAGE"):
    SABOTAGES[os.environ["SABOTAGE"]]()
