"""More engines with one thing wrong each: claims, commits, crashes, waiting, upkeep, the end."""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from holdfast.engine.memory import MemoryCatalog, MemoryEngine, MemoryLedger, MemoryPartition
from holdfast.engine.port import APPEND_SECONDS, Claim, Granted, Parcel, Revoked
from holdfast.errors import Fenced, HoldfastError
from holdfast.model.schema import Schema
from holdfast.stepping.commit import Commit, CommitNote, Fate
from holdfast.stepping.fates import Fates
from tests.engine.broken import A_MOMENT, Lasting, Results, Sound

# Claiming and committing.


class Unfenced(Sound):
    """Lets everybody commit."""

    def _stands(self, part: MemoryPartition, claim: Claim, commit: Commit) -> bool:
        return False


class FencedEarly(Sound):
    """Looks for a later claim before the commit, and not in it."""

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        for claim, commit in batches:
            part = self._partitions[claim.partition]
            self._stands(part, claim, commit)
            self._faults("commit.before")
            with part.whole:
                self._faults("commit.inside")
                self._write(part, commit)
                self._faults("commit.after")


class Torn(Sound):
    """Writes states before it looks whether the commit is allowed."""

    def _commit_one(self, claim: Claim, commit: Commit) -> None:
        part = self._partitions[claim.partition]
        part.states.update({(r.agent, r.key): r for r in commit.records if not r.gone})
        super()._commit_one(claim, commit)


class Unrepeatable(Sound):
    """Does not know a commit that stands already."""

    def _stands(self, part: MemoryPartition, claim: Claim, commit: Commit) -> bool:
        if super()._stands(part, claim, commit):
            raise Fenced("somebody committed")
        return False


class Noteless(Sound):
    """Commits without a note."""

    def _write(self, part: MemoryPartition, commit: Commit) -> None:
        super()._write(part, commit)
        part.notes.clear()


class Overzealous(Sound):
    """Notes also what is no step forward."""

    def _write(self, part: MemoryPartition, commit: Commit) -> None:
        super()._write(part, commit)
        if commit.note is None:
            head = commit.head
            note = CommitNote(head.commits, head.position, head.journal_next, head.now, 0)
            part.notes.append(note)


class Tidy(Sound):
    """Forgets notes at every upkeep."""

    def maintain(self) -> None:
        super().maintain()
        for part in self._partitions:
            part.notes.clear()


class Forgiving(Sound):
    """Forgets what became of actions."""

    def _write(self, part: MemoryPartition, commit: Commit) -> None:
        super()._write(part, commit)
        part.decided.cut(1)


class _OneEach(Fates):
    def of(self, ids: Iterable[str]) -> list[Fate]:
        found = {one.id: one for one in super().of(ids)}
        return list(found.values())


class Laconic(Sound):
    """Tells one thing only of each action that is asked for."""

    def _write(self, part: MemoryPartition, commit: Commit) -> None:
        super()._write(part, commit)
        part.decided = _OneEach(part.decided.all())


class Lifting(Sound):
    """New partitions do not know that the fleet is stopped."""

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        super().rescale(claims, partitions)
        for part in self._partitions:
            part.committed = part.committed._replace(ground_stop="")


class Overlapping(Sound):
    """Gives the same epoch to two who claim at once."""

    @contextmanager
    def _turn(self, partition: int, seconds: float) -> Iterator[None]:
        yield

    def _claim(self, number: int, generation: int) -> Claim:
        part = self._partitions[number]
        epoch = part.epoch
        time.sleep(10 * A_MOMENT)
        part.epoch = epoch
        return super()._claim(number, generation)


class Timeless(Sound):
    """Forgets claims and generations when it is opened again."""

    def twin(self) -> Self:
        for part in self._partitions:
            part.generation = part.epoch = 0
        return super().twin()


class Reborn(Sound):
    """Its partitions are others after every start."""

    def twin(self) -> Self:
        for part in self._partitions:
            part.born += "'"
        return super().twin()


class Mute(Sound):
    """Tells nobody who was fenced."""

    capabilities = dataclasses.replace(MemoryEngine.capabilities, several_processes=True)

    def assignments(
        self, wanted: Sequence[int] | None, generation: int
    ) -> Iterator[Granted | Revoked]:
        return super().assignments(wanted, generation)


class Usurping(Sound):
    """Ends the claim of others before it looks whether its own is allowed."""

    def _claim(self, number: int, generation: int) -> Claim:
        self._partitions[number].epoch += 1
        return super()._claim(number, generation)


class Heartless(Lasting):
    """Counts no deaths."""

    def folding(self, claim: Claim, position: int | None) -> None:
        pass


class Suspicious(Lasting):
    """Takes every end for a death."""

    def folding(self, claim: Claim, position: int | None) -> None:
        if position is not None:
            super().folding(claim, position)


class Undelivering(Sound):
    """Leaves messages in the outbox, and says that it does not."""

    capabilities = dataclasses.replace(MemoryEngine.capabilities, delivers_messages=True)


# Crashing.


class HalfAnAppend(Sound):
    """A crash in the middle leaves the first parcel."""

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> Results:
        first = self._take(partition, parcels[:1], self._clock())
        self._faults("append.inside")
        return first + self._take(partition, parcels[1:], self._clock())


class Clinging(Sound):
    """Strikes no call off."""

    def _write(self, part: MemoryPartition, commit: Commit) -> None:
        super()._write(part, dataclasses.replace(commit, closed=[]))


class Striking(Sound):
    """Strikes calls off before it adds those of the same commit."""

    def _write(self, part: MemoryPartition, commit: Commit) -> None:
        for call_id in commit.closed:
            part.opened.pop(call_id, None)
        super()._write(part, dataclasses.replace(commit, closed=[]))


class Unordered(Sound):
    """Gives open calls in any order."""

    def _write(self, part: MemoryPartition, commit: Commit) -> None:
        super()._write(part, commit)
        part.opened = dict(reversed(part.opened.items()))


class HalfACommit(Sound):
    """A crash in the middle leaves the states and not the head."""

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        for claim, commit in batches:
            self._faults("commit.before")
            part = self._partitions[claim.partition]
            if not self._stands(part, claim, commit):
                part.states.update({(r.agent, r.key): r for r in commit.records})
                self._faults("commit.inside")
                self._write(part, commit)
            self._faults("commit.after")


class Volatile(Lasting):
    """Loses the last append and the last commit with its process."""

    def twin(self) -> Self:
        for part in self._partitions:
            if part.inbox:
                part.next = part.inbox.pop().first
            part.states.clear()
        return super().twin()


class Amnesiac(Lasting):
    """Forgets what it has seen when it is opened again."""

    def twin(self) -> Self:
        for part in self._partitions:
            part.ledger = MemoryLedger()
        return super().twin()


class Silent(Sound):
    """Never calls the fault points that it says it has."""

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> Results:
        return self._take(partition, parcels, self._clock())


# Waiting, upkeep, the end, the catalog.


class Restless(Sound):
    """Never waits."""

    def wait(self, seconds: float) -> None:
        pass


class Deaf(Sound):
    """Sleeps on, whatever is appended."""

    def _tell(self, partition: int) -> None:
        pass


class Sleepy(Sound):
    """Forgets what happened before the wait."""

    def wait(self, seconds: float) -> None:
        self._woken = False
        super().wait(seconds)


class Jumpy(Sound):
    """Wakes for everybody's appends."""

    def _tell(self, partition: int) -> None:
        self.wake()


class Greedy(Sound):
    """Upkeep forgets what is not folded yet."""

    def maintain(self) -> None:
        for part in self._partitions:
            part.inbox.clear()


class Hoarding(Sound):
    """Upkeep forgets nothing."""

    def maintain(self) -> None:
        pass


class Rash(Sound):
    """Upkeep forgets what is folded, however young."""

    def maintain(self) -> None:
        for part in self._partitions:
            folded = part.committed.position
            part.inbox = [f for f in part.inbox if f.first + f.count > folded]


class Clumsy(Sound):
    """Upkeep moves things about while others look."""

    def maintain(self) -> None:
        for part in self._partitions:
            gone, part.inbox = part.inbox, []
            time.sleep(A_MOMENT)
            part.inbox = gone + part.inbox
        time.sleep(A_MOMENT)


class Undying(Sound):
    """Goes on after it was closed."""

    def close(self) -> None:
        pass


class Fragile(Sound):
    """Cannot be closed twice."""

    def close(self) -> None:
        if self._closed:
            raise HoldfastError("closed already")
        super().close()


class Catalogued(Sound):
    """Its catalog is of another class."""

    catalogs: type[MemoryCatalog]

    @property
    def catalog(self) -> MemoryCatalog:
        return self._catalog

    @catalog.setter
    def catalog(self, made: MemoryCatalog) -> None:
        self._catalog = self.catalogs(made.fleet, len(made.layout.partitions))


class LossyCatalog(MemoryCatalog):
    def register(self, schemas: Sequence[Schema], *, renew: bool = False) -> dict[str, int]:
        time.sleep(A_MOMENT)
        number = len(self._schemas) + 1
        time.sleep(A_MOMENT)
        for schema in schemas:
            self._schemas[number] = schema
            number += 1
        return {schema.fingerprint: i for i, schema in self._schemas.items()}


class Lossy(Catalogued):
    """Gives an id to each who asks, and sometimes to two."""

    catalogs = LossyCatalog


class StubbornCatalog(MemoryCatalog):
    def register(self, schemas: Sequence[Schema], *, renew: bool = False) -> dict[str, int]:
        return super().register(schemas)


class Stubborn(Catalogued):
    """A class is for ever what it was declared with first."""

    catalogs = StubbornCatalog
