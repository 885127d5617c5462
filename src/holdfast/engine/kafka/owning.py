"""Owning a partition: the claim that takes it over, and commits until somebody else claims it.

Who owns it is what the changelog says: the latest claim in it. Before anything is committed the
changelog was read to its end with a writer that is open, so whoever claims later must have opened
a writer later, and fences this one.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Protocol

from confluent_kafka import TopicPartition

from holdfast.engine.faults import FaultPoints
from holdfast.engine.kafka.following import Following
from holdfast.engine.kafka.handover import Handover
from holdfast.engine.kafka.records import Claimed, Committed, parts_of
from holdfast.engine.kafka.writer import Lost, Moving, Overtaken
from holdfast.engine.port import Claim
from holdfast.errors import Busy, DamagedData, Fenced, OutdatedCode
from holdfast.stepping.commit import Commit

CLAIM_ATTEMPTS = 20
# How long one who was overtaken waits to see the claim of the other: reading a changelog to its
# end and one transaction. Nobody comes? Then the other has died in between, and we go on.
SUCCESSOR_SECONDS = 5.0
COMMIT_ATTEMPTS = 2  # more of them would take longer than a commit may
LOOK_SECONDS = 0.05
LEAVE_SECONDS = 2.0  # longer than it ever takes where brokers are up


class Group(Protocol):
    """The consumer group that assigned the partition."""

    def metadata(self) -> object: ...


def myself() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


class Ownership:
    """Called by one thread at a time, that of the worker."""

    def __init__(
        self,
        following: Following,
        generation: int,
        noted: Callable[[], int | None],
        faults: FaultPoints,
        group: Group | None,
        handover: Handover,
    ) -> None:
        """Claims it. `noted` tells where a worker that died on this machine was folding."""
        self._following = following
        self._mirror = following.mirror
        self._faults = faults
        self._group = group
        self._uncertain = False
        self.handover = handover
        self.claim = self._claim(generation, noted)
        self._head = self._mirror.view.head()

    # Claiming.

    def _claim(self, generation: int, noted: Callable[[], int | None]) -> Claim:
        """1 catch up, 2 fence, 3 catch up with what came until then, 4 say so in the changelog."""
        self._following.read_changelog()
        self._following.catch_up()
        self._check_generation(generation)
        for attempt in range(CLAIM_ATTEMPTS):
            try:
                self._writer = self._following.open_writer()
                return self._announce(generation, noted())
            except Overtaken:
                self.close()
                # Of several who fence each other, each waits for another while.
                time.sleep(LOOK_SECONDS * (attempt % 4) * (os.getpid() % 7 + 1) / 7)
            except Lost as lost:
                self.close()
                raise lost.trouble from None
            except BaseException:
                self.close()
                raise
        raise Busy(f"partition {self._mirror.number}: others claim it without a pause: try again")

    def _announce(self, generation: int, noted: int | None) -> Claim:
        mirror, state = self._mirror, self._mirror.state
        self._following.catch_up()
        self._check_generation(generation)
        head = mirror.view.head()
        deaths = state.deaths.found(noted, head.position, head.urgent)
        entry = Claimed(state.epoch + 1, generation, myself(), deaths)
        waiting = mirror.inbox.read(head.position, 1)
        notice = self.handover.claiming(entry.epoch, waiting[0].stamp if waiting else None)
        place = self._writer.write(entry, notices=[notice])
        self._following.stop_reading_changelog()
        state.put_claim(entry, place)
        told = (deaths.attempts, deaths.alone, deaths.urgent)
        return Claim(mirror.number, entry.epoch, mirror.incarnation, *told)

    def _check_generation(self, generation: int) -> None:
        stored = self._mirror.state.generation
        if stored > generation:
            raise OutdatedCode(
                f"partition {self._mirror.number}: newer classes have folded here (schema "
                f"generation {stored}, this program has {generation}): run the newer program"
            )

    # Committing.

    def commit(self, commit: Commit) -> None:
        """1 find out what stands, if that is not known, 2 one transaction, 3 the local copy."""
        self._faults("commit.before")
        attempts = 0
        while self._uncertain or self._head != commit.head:
            if self._uncertain:
                self._find_out()
                continue
            if self._head != commit.before:
                raise DamagedData(
                    f"partition {self._mirror.number}: the head is {self._head}, the commit "
                    f"expects {commit.before}"
                )
            if attempts == COMMIT_ATTEMPTS:
                raise Busy(
                    f"partition {self._mirror.number}: brokers have ended this commit {attempts} "
                    "times before it was there, and nobody else has the partition: if this stays "
                    "so, raise transaction_seconds in the engine URL"
                )
            attempts += 1
            self._write(commit)
        self.handover.committed()
        self._following.read_inbox_up_to(commit.head)
        self._mirror.state.put_commit(
            self.claim.partition, self.claim.epoch, commit, self._following.changelog_end
        )
        self._faults("commit.after")

    def _write(self, commit: Commit) -> None:
        self._uncertain = True
        try:
            try:
                end = self._transact(commit, self._offsets(commit.head.position))
            except Moving:
                end = self._transact(commit, [])  # the next commit tells the group
        except Overtaken:
            self._await_successor()
            return
        except Lost as lost:
            if lost.stumbled:
                self._await_successor()
            raise lost.trouble from None
        self._following.changelog_end = end
        self._uncertain = False
        self._head = commit.head

    def _transact(self, commit: Commit, offsets: list[TopicPartition]) -> int:
        following = self._following
        return self._writer.write(
            Committed.of(self.claim.epoch, commit),
            [
                (following.inbox_of(o.destination), o)
                for out in commit.outgoing
                for o in parts_of(out)
            ],
            self._mirror.incarnation,
            self.handover.committing(),
            offsets,
            self._group.metadata() if self._group is not None and offsets else None,
            lambda: self._faults("commit.inside"),
        )

    def _offsets(self, position: int) -> list[TopicPartition]:
        """How far the inbox is folded, for the group and the tools of Kafka: what decides for us
        is the position in the changelog, which stands in the same transaction."""
        offset = None if self._group is None else self._mirror.offset_at(position)
        return [] if offset is None else [TopicPartition(*self._following.inbox, offset)]

    def _await_successor(self) -> None:
        """Fenced as soon as it is seen that somebody has claimed the partition."""
        deadline = time.monotonic() + SUCCESSOR_SECONDS
        while time.monotonic() < deadline:
            self._look()
            time.sleep(LOOK_SECONDS)

    def _find_out(self) -> None:
        """Another writer, so that the outcome is decided; then the changelog tells it."""
        self._look()
        self._writer.abandon()
        try:
            self._writer = self._following.open_writer()
        except Overtaken:
            self._await_successor()
            return
        self.check()
        self._head = self._mirror.view.head()
        self._uncertain = False

    def check(self) -> None:
        """Fenced if somebody has claimed it later."""
        self._look()
        self._following.stop_reading_changelog()
        self._check_latest()  # what came until then was taken too

    def _look(self) -> None:
        self._following.read_changelog()
        self._following.catch_up()
        self._check_latest()

    def _check_latest(self) -> None:
        state = self._mirror.state
        if state.epoch > self.claim.epoch:
            holder = state.facts().get("holder", "another worker")
            self._following.read_changelog()  # from here on it only follows
            raise Fenced(
                f"partition {self.claim.partition}: {holder} owns it since epoch {state.epoch}, "
                f"we have {self.claim.epoch}; this one stops"
            )

    def take_leave(self) -> bool:
        """Readers need not ask us any more. False where brokers do not hear it; who does not know
        what stands tells nothing."""
        return self._uncertain or self._writer.tell(self.handover.leaving(), LEAVE_SECONDS)

    def close(self) -> None:
        if hasattr(self, "_writer"):
            self._writer.abandon()

    def release(self) -> None:
        self._writer.abandon()
        self._following.read_changelog()
