"""Engines that are wrong about blocks, one thing each."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Self, cast

from holdfast.engine.contents import HeldContents
from holdfast.engine.memory import MemoryPartition
from holdfast.engine.port import VIEW_SECONDS, Change, Claim, Images, Loaded, View
from holdfast.stepping.blocks import Block
from holdfast.stepping.commit import Commit, Record
from tests.engine.broken import Lasting, Sound
from tests.engine.served import instead


class Blind(Sound):
    """Does not see blocks."""

    def _write(self, part: MemoryPartition, commit: Commit) -> None:
        commit.blocks = []
        super()._write(part, commit)


class RowsLast(Sound):
    """Takes a row for newer than any block."""

    def _write(self, part: MemoryPartition, commit: Commit) -> None:
        super()._write(part, commit)
        part.fresh.sort(key=lambda each: isinstance(each, Record))


class Backwards(Sound):
    """Loads what is newest first."""

    def load(self, claim: Claim) -> Loaded:
        loaded = super().load(claim)
        return loaded._replace(records=reversed(list(loaded.records)))


class Dropping(Lasting):
    """Forgets what lies in blocks when it is opened again."""

    def twin(self) -> Self:
        for part in self._partitions:
            part.columns.clear()
        return super().twin()


class Stale(Sound):
    """Takes the images of the first compaction for those of all others."""

    def compact(self, claim: Claim, images: Images) -> None:
        first: dict[str, list[tuple[int, Block | None]]]
        first = self.__dict__.setdefault("first", {})

        def remembered(agent: str, buckets: set[int]) -> Iterable[tuple[int, Block | None]] | None:
            made = images(agent, buckets)
            return None if made is None else first.setdefault(agent, list(made))

        super().compact(claim, remembered)


class Trusting(Sound):
    """Lets everybody compact."""

    def compact(self, claim: Claim, images: Images) -> None:
        part = self._partitions[claim.partition]
        part.compact(images)


class Demanding(Sound):
    """Takes a class of which there are no images for one without agents."""

    def compact(self, claim: Claim, images: Images) -> None:
        super().compact(claim, lambda agent, buckets: images(agent, buckets) or ())


class Partial(Sound):
    """Says of all states that they are those that changed."""

    def view(self, partition: int, wait_seconds: float = VIEW_SECONDS) -> MemoryPartition:
        view = super().view(partition, wait_seconds)
        return cast(MemoryPartition, instead(view, changes=partial(self._changes, view)))

    def _changes(self, view: View, since: int) -> Iterator[Change]:
        return (piece._replace(whole=False) for piece in view.changes(since))


class Shrinking(Sound):
    """New partitions, and planted ones, get rows only."""

    def _lose(self) -> None:
        for part in self._partitions:
            part.fresh = [each for each in part.fresh if isinstance(each, Record)]
            part.columns.clear()

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        self._lose()
        super().rescale(claims, partitions)

    def capture(self) -> HeldContents:
        self._lose()
        return super().capture()
