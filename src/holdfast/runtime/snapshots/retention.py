"""Which snapshots are kept, and how chunks that no snapshot refers to are removed.

Of automatic snapshots the newest few are kept, and the first one of each day for a while; those
that people named are kept until somebody deletes them.

A chunk that no manifest refers to may be garbage, or belong to a snapshot under way: one that
uploads it now, or one that builds on a manifest which was deleted a moment ago. Objects have no age
that could be asked for. So orphans are noted first, in an object with the time, and removed by a
later round if they are still orphans, GRACE_SECONDS after, by then with a newer manifest too. A
snapshot under way relies on nothing but chunks it uploaded itself and chunks that a manifest
referred to when it began (chunks.py), and gives up after half of the grace (creating.py): when its
chunks could be removed, its manifest is there or will never be.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from holdfast.errors import Missing
from holdfast.runtime.snapshots.manifest import AUTOMATIC
from holdfast.runtime.snapshots.store import Listed, SnapshotStore

KEEP_NEWEST = 10
KEEP_DAYS = 30
GRACE_SECONDS = 12 * 3600.0


class Keeping(NamedTuple):
    newest: int = KEEP_NEWEST
    days: int = KEEP_DAYS


class Note(msgspec.Struct):
    """Chunks that were orphans at a time, when the newest snapshot had this number."""

    wall: float
    number: int
    chunks: list[str]


def expendable(snapshots: Iterable[tuple[Listed, float]], keeping: Keeping) -> list[Listed]:
    """Of automatic ones, given with the time they were taken, those that retention lets go."""
    mine = sorted(one for one in snapshots if one[0].name.startswith(AUTOMATIC))
    kept = {listed for listed, _ in mine[-max(1, keeping.newest) :]}
    days: dict[str, Listed] = {}
    for listed, taken in mine:
        days.setdefault(time.strftime("%Y%m%d", time.gmtime(taken)), listed)
    kept |= {days[day] for day in sorted(days)[-keeping.days :]} if keeping.days else set()
    return [listed for listed, _ in mine if listed not in kept]


def retain(store: SnapshotStore, keeping: Keeping) -> list[Listed]:
    """Delete what retention lets go; what cannot be read is left for somebody to look at."""
    found = [(Listed(each.number, each.name), each.taken) for each in store.readable()]
    gone = expendable(found, keeping)
    for listed in gone:
        store.delete(listed)
    return gone


def collect(store: SnapshotStore, wall: float, grace_seconds: float = GRACE_SECONDS) -> int:
    """One round: remove orphans noted long ago, note new ones. How many were removed.

    A manifest that cannot be read may refer to anything, so then nothing is removed.
    """
    blob = store.blob
    present = list(blob.list("chunks"))
    listed = store.listed()  # after the chunks: a chunk seen now has its manifest by now, or later
    manifests = filter(None, map(store.look, listed))  # of one deleted since nobody has need
    referred = {ref.object for manifest in manifests for ref in manifest.chunks()}
    orphans = set(present) - referred
    newest = listed[-1].number if listed else 0
    store.forget_claims(newest)
    removed = 0
    noted: set[str] = set()
    for name in list(blob.list("garbage")):
        note = _note(store, name)
        if note is None:
            continue
        # A clock that was set ahead must not end the grace: a newer snapshot has to be there too.
        if 0.0 <= wall - note.wall < grace_seconds or newest <= note.number:
            noted.update(note.chunks)
            continue
        if wall >= note.wall:
            for chunk in note.chunks:
                if chunk in orphans:
                    blob.delete(chunk)
                    removed += 1
        blob.delete(name)  # the clock went back behind it: noted anew below
        orphans.difference_update(note.chunks if wall >= note.wall else ())
    fresh = sorted(orphans - noted)
    if fresh:
        note = Note(wall, newest, fresh)
        blob.put_if_absent(f"garbage/{int(wall * 1000):016d}", msgspec.json.encode(note))
    return removed


def _note(store: SnapshotStore, name: str) -> Note | None:
    try:
        return msgspec.json.decode(store.blob.get(name), type=Note)
    except Missing:
        return None  # another one who collects has removed it
    except msgspec.MsgspecError:
        store.blob.delete(name)  # its chunks are found again
        return None
