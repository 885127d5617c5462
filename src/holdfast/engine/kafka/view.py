"""Reading a partition: from a mirror where this process has one, else from its owner.

A process that only reads needs no copy of the fleet. Where no owner answers for a while, it makes
itself a copy: the topics have everything.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import cast

from holdfast.engine.kafka.asking import NotServed, RemoteView
from holdfast.engine.kafka.copies import Copies
from holdfast.engine.kafka.mirrorview import MirrorView
from holdfast.engine.kafka.owners import Owners
from holdfast.engine.port import View
from holdfast.engine.questions import QUESTIONS

# How long a reader waits for an owner that moves: a restarted worker is there in a second.
TAKEOVER_SECONDS = 3.0
COPY_SECONDS = 0.5  # the same, where files of a copy are here, which need only be read on
LOOK_SECONDS = 0.05

_log = logging.getLogger("holdfast.engine")


def view_of(number: int, copies: Copies, owners: Owners | None, wait_seconds: float) -> View:
    """Without owners, from a mirror: a retired partition has none."""
    return cast(View, _Reader(number, copies, owners, wait_seconds))


class _Reader:
    """Has the methods of `View`, each asked where the answer is."""

    def __init__(
        self, number: int, copies: Copies, owners: Owners | None, wait_seconds: float
    ) -> None:
        self._number = number
        self._copies = copies
        self._owners = owners
        self._wait_seconds = wait_seconds
        self._remote: tuple[object, RemoteView] | None = None

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name not in QUESTIONS:
            raise AttributeError(name)
        return partial(self._look, name)

    def owner(self) -> str:
        """Nobody, once the last one has ended well: what its copy says is who claimed it."""
        left = self._owners is not None and self._owners.has_left(self._number)
        return "" if left else str(self._look("owner"))

    def _look(self, name: str, *arguments: object) -> object:
        patience = min(self._wait_seconds, self._patience())
        deadline = time.monotonic() + patience
        while self._owners is not None and not self._copies.has(self._number):
            owner = self._owners.of(self._number)
            if owner is None or not owner.address:
                break
            try:
                if self._remote is None or self._remote[0] != owner:
                    view = RemoteView(
                        owner.address, self._number, patience, least_epoch=owner.epoch
                    )
                    self._remote = owner, view
                return getattr(self._remote[1], name)(*arguments)
            except NotServed as trouble:
                if time.monotonic() > deadline:
                    _log.info("partition %d is copied, not asked for: %s", self._number, trouble)
                    self._owners.note_silent(owner.address)
                    break
                time.sleep(LOOK_SECONDS)
        mirror = MirrorView(self._copies.of(self._number), self._wait_seconds)
        return getattr(mirror, name)(*arguments)

    def _patience(self) -> float:
        """For an owner that says nothing; beside a copy of our own there is not much to lose."""
        return COPY_SECONDS if self._copies.is_at_hand(self._number) else TAKEOVER_SECONDS
