"""Committed reads of one partition from its mirror, which is brought up to date first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.engine.kafka.following import Following
from holdfast.engine.port import VIEW_SECONDS, Change
from holdfast.engine.sqlite.view import SqliteView
from holdfast.stepping.commit import (
    Answer,
    Call,
    CommitNote,
    Fate,
    Head,
    Issued,
    Journalled,
    Letter,
    Record,
)
from holdfast.stepping.inputs import StoredFrame


class MirrorView:
    def __init__(self, following: Following, wait_seconds: float = VIEW_SECONDS) -> None:
        self._following = following
        self._mirror = following.mirror
        self._wait_seconds = wait_seconds

    def _now(self) -> SqliteView:
        """An owner's own copy is up to date: nobody else commits."""
        if not self._following.owned:
            self._following.catch_up(self._wait_seconds)
        return self._mirror.view

    def _arrived(self) -> SqliteView:
        self._following.read_inbox_to_its_end(self._wait_seconds)
        return self._mirror.view

    def head(self) -> Head:
        return self._now().head()

    def inbox_next(self) -> int:
        return self._arrived().inbox_next()

    def urgent_next(self) -> int:
        return self._arrived().urgent_next()

    def position_of(self, following: int) -> int | None:
        found = self._mirror.position_of(following)
        if found is None:
            self._arrived()
        return found or self._mirror.position_of(following)

    def inbox_first(self) -> int:
        return self._mirror.view.inbox_first()

    def frames(self, first: int, most: int) -> list[StoredFrame]:
        """What is here already stands: only who finds nothing has to ask whether there is more."""
        return self._mirror.view.frames(first, most) or self._arrived().frames(first, most)

    def marks(self) -> dict[str, int]:
        return self._arrived().marks()

    def record(self, agent: str, key: str) -> Record | None:
        return self._now().record(agent, key)

    def records(self, agent: str | None = None) -> Iterator[Record]:
        return self._now().records(agent)

    def changes(self, since: int) -> Iterator[Change]:
        return self._now().changes(since)

    def journal(self, first: int, most: int) -> list[Journalled]:
        return self._now().journal(first, most)

    def commits(self, first: int, most: int) -> list[CommitNote]:
        return self._now().commits(first, most)

    def actions(self, first: int, most: int) -> list[Issued]:
        return self._now().actions(first, most)

    def letters(self) -> list[tuple[Letter, bool]]:
        return self._now().letters()

    def letter(self, letter_id: int) -> Letter | None:
        return self._now().letter(letter_id)

    def answer(self, place: int) -> Answer | None:
        return self._now().answer(place)

    def fates(self) -> list[Fate]:
        return self._now().fates()

    def fates_of(self, ids: Sequence[str]) -> list[Fate]:
        return self._now().fates_of(ids)

    def calls(self, after: int, most: int) -> list[Call]:
        return self._now().calls(after, most)

    def sent_next(self) -> dict[int, int]:
        return self._now().sent_next()

    def incarnation(self) -> str:
        return self._mirror.incarnation

    def owner(self) -> str:
        self._now()
        return self._mirror.state.facts().get("holder", "")
