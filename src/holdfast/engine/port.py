"""The engine port: durable inboxes, one atomic commit per partition, committed reads.

An engine keeps, per partition, an *inbox* (frames in append order, with a stored counter of
positions) and a *state* (records of agents, outputs, and the head: the position reached). The
runtime folds the one into the other and never touches storage by itself. What an engine stores is
opaque to it.

Guaranteed by every engine:
- `append` returns after its events are durable, all of a parcel or none; order of append is order
  of positions; a repeat of a (source, seq) or of a message number is a no-op.
- Rows that are urgent (stepping/lane.py) stand in the *lane* beside the inbox, numbered from LANE
  on, each in a frame of its own; what is said of positions is true of the lane for itself. Whoever
  reads an inbox and then the lane sees all of an append.
- `commit` makes everything in it durable at once, or nothing. It is refused with `Fenced` when a
  later claim exists, also when that claim was made while this commit was under way.
- `read` and every `View` show only what is durable and committed; neither blocks a writer. Whoever
  has seen a part of an append or commit sees all of it; a `View` never goes back in one process.
- A call that ends in a crash has happened wholly or not at all, and leaves what was before.
- Stamps never go back; a clock that leaps ahead is refused.
- `append`, `read`, `view`, `wake` and `maintain` may be called from any thread at any time.
- After `close` every call that would read or write is refused with `UsageError`; `wake`,
  `maintain` and another `close` do nothing.
- Numbers of partitions are never used twice. After `rescale` the old partitions are retired: they
  can be read for ever, and take no commit, no claim and no event from outside any more.

Not guaranteed:
- that an append which raised anything but a refusal did not happen: send it again, it dedupes.
- that two partitions commit together; order between partitions; fairness between sources.
- that a `View` is current; that it can be read after its engine was closed.
- that the other calls of one claim may overlap: its owner makes them one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast.engine.stamping import NEVER, Instant
from holdfast.model.keys import Layout
from holdfast.model.schema import Schema
from holdfast.stepping.blocks import Block
from holdfast.stepping.commit import (
    Answer,
    Call,
    Commit,
    CommitNote,
    Fate,
    Head,
    Issued,
    Journalled,
    Letter,
    Record,
)
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame

if TYPE_CHECKING:
    from holdfast.engine.contents import Contents  # which is made of what is said here

# Of a class whose agents the owner keeps in columns: for each of these buckets (stepping/blocks.py)
# a block with all of its agents as committed, None where it has none; or None: not such a class.
Images = Callable[[str, set[int]], "Iterable[tuple[int, Block | None]] | None"]

APPEND_SECONDS = 5.0  # ten times the longest append seen on a slow disk
VIEW_SECONDS = 10.0  # others answer within milliseconds, or are about to be replaced


@dataclass(frozen=True)
class Capabilities:
    """What differs between engines in a way that others must know."""

    several_processes: bool  # other processes can append and read
    survives_exit: bool  # data outlives the process
    refuses_at_append: bool  # an append dedupes, refuses, stamps and gives positions
    delivers_messages: bool  # messages go out inside the commit; otherwise the runtime relays
    assigns: bool = False  # the engine says who folds what; otherwise whoever wants it claims it
    rescales: bool = False  # the number of partitions can be changed
    captures: bool = False  # the whole fleet can be captured while it runs, and planted anew


@dataclass(frozen=True)
class Limits:
    """Bounds, each with a defined refusal. Changed through the engine's URL."""

    backlog_events_max: int = 2_000_000  # external sends past it: Backlog
    outbox_messages_max: int = 200_000  # the runtime's: past it a partition waits for its relay
    urgent_events_max: int = 10_000  # the same of those in the lane, whatever the backlog is
    sources_max: int = 10_000  # a new named source past it: TooManySources
    anonymous_sources_max: int = 100_000  # of requests and handles without one
    disk_reserve_bytes: int = 64 * 1024 * 1024  # DiskFull: messages at it, sends at twice it
    clock_jump_seconds_max: float = 3600.0  # a larger jump forward: ClockJumped
    commit_interval_seconds: float = 0.0  # the runtime's: events gather so long between commits
    segment_bytes: int = 64 * 1024 * 1024
    retain_seconds: float = 7 * 24 * 3600.0  # so long folded events and actions are kept
    retain_bytes: int = 4 * 1024**3  # per inbox; past it folded events go earlier, others never


class Mark(NamedTuple):
    """Where a parcel of messages stands in the stream from one partition to another."""

    source: str  # partition and incarnation it comes from
    first: int


@dataclass(frozen=True)
class Parcel:
    """Events for one inbox that are taken together or not at all."""

    frame: Frame
    encoded: bytes
    source: str | None = None  # without one nothing is a repeat
    seqs: range | Sequence[int] = range(0)
    mark: Mark | None = None
    external: bool = True  # what is not external passes the bound of the backlog


class Taken(NamedTuple):
    """Where a parcel's events went: positions before `next` include them all, repeats too.

    Of a parcel that is wholly urgent it is a place in the lane; one that is so in part has both,
    and so has one with repeats, as their class may have been another once. Where an append does not
    decide, they are known to `View.position_of` only.
    """

    next: int
    new: int  # how many were not repeats
    stamp: float
    urgent: int = 0  # its place in the lane, where it has both

    @property
    def places(self) -> tuple[int, ...]:
        return (self.next, self.urgent) if self.urgent else (self.next,)


@dataclass(frozen=True)
class Claim:
    """The right to commit to one partition, until somebody claims it later."""

    partition: int
    epoch: int
    incarnation: str
    attempts: int  # how often a worker died while folding at this very position; anew once alone
    alone: bool  # the third such death was here or shortly before: fold one event per commit
    urgent: bool = False  # those deaths were at the next event of the lane


class Granted(NamedTuple):
    claim: Claim


class Revoked(NamedTuple):
    partition: int


class Loaded(NamedTuple):
    head: Head
    sent_next: dict[int, int]
    outbox: list[tuple[int, int, int, bytes]]  # destination, first, count, frame
    records: Iterator[Record | Block]  # in the order of applying: later ones win
    stamp: Instant = NEVER  # of the newest event in the inbox


def no_images(agent: str, buckets: set[int]) -> None:
    """For an owner that keeps nothing in columns."""


class Change(NamedTuple):
    """A piece of what `View.changes` gives."""

    head: Head | None = None
    whole: bool = False
    record: Record | None = None
    block: bytes = b""


class View(Protocol):
    """Committed reads of one partition."""

    def head(self) -> Head: ...
    def inbox_next(self) -> int: ...
    def urgent_next(self) -> int: ...  # so many events have come to the lane
    def inbox_first(self) -> int: ...  # older events are past retention
    def position_of(self, following: int) -> int | None:
        """For `Taken.next` the position that it stands for; None while nobody can know."""

    def record(self, agent: str, key: str) -> Record | None: ...
    def records(self, agent: str | None = None) -> Iterator[Record]: ...
    def changes(self, since: int) -> Iterator[Change]:
        """The states as of one commit, whose head comes first: all, or what changed behind `since`.

        That is the number of a commit, or -1. Which of the two it is, is the engine's choice, and
        `whole` says it. What follows is to be applied in this order: a later image replaces an
        earlier one, and a record without a state removes its agent. Blocks are encoded.
        """

    def frames(self, first: int, most: int) -> list[StoredFrame]: ...  # as `read` gives them
    def journal(self, first: int, most: int) -> list[Journalled]: ...
    def commits(self, first: int, most: int) -> list[CommitNote]:
        """The note of each commit from number `first` on, in order, written with it.

        They are kept as long as the journal. Commits of releases that made no notes have none.
        """

    def actions(self, first: int, most: int) -> list[Issued]: ...
    def letters(self) -> list[tuple[Letter, bool]]: ...  # with: was it redriven
    def letter(self, letter_id: int) -> Letter | None: ...  # None once it was redriven
    def answer(self, position: int) -> Answer | None: ...
    def fates(self) -> list[Fate]:
        """What became of actions, the oldest first, kept as long as actions are."""

    def fates_of(self, ids: Sequence[str]) -> list[Fate]:
        """The same of these actions, in their order, without looking at the others."""

    def calls(self, after: int, most: int) -> list[Call]: ...  # open, of higher numbers, ascending
    def sent_next(self) -> dict[int, int]: ...
    def marks(self) -> dict[str, int]: ...
    def incarnation(self) -> str: ...
    def owner(self) -> str: ...


def waiting_in(view: View, head: Head) -> int:
    """So many events have come and are not folded there, in the inbox and in the lane."""
    return view.inbox_next() - head.position + view.urgent_next() - head.urgent


class Catalog(Protocol):
    """What a fleet's data says of itself, the same in every process."""

    @property
    def fleet(self) -> str: ...
    @property
    def layout(self) -> Layout:
        """The partitions that live now: current at every look, and cheap to look at."""

    @property
    def retired(self) -> dict[int, range]:
        """The slots of every partition before those of the layout, by number."""

    def schemas(self) -> dict[int, Schema]: ...
    def register(self, schemas: Sequence[Schema], *, renew: bool = False) -> dict[str, int]:
        """Ids by fingerprint; new schemas are stored, with higher ids than all before them.

        With `renew` the options of those that are known become what these say.
        """


class Engine(Protocol):
    capabilities: Capabilities
    limits: Limits

    @property
    def catalog(self) -> Catalog: ...

    def append(
        self, partition: int, parcels: Sequence[Parcel], wait_seconds: float = APPEND_SECONDS
    ) -> list[Taken | Exception]:
        """Append all parcels in one transaction; a refused one does not hold up the others.

        Raises Busy when others do not let it have its turn within `wait_seconds`.
        """

    def read(self, partition: int, position: int, events_max: int) -> list[StoredFrame]:
        """Frames from the one that holds `position` on: none only where nothing is yet.

        It ends with the frame that reaches `events_max`, at the latest. From a place in the lane
        on, those of the lane; which of them are kept once they are folded is not said.
        """

    def assignments(
        self, wanted: Sequence[int] | None, generation: int
    ) -> Iterator[Granted | Revoked]:
        """Changes in what this process may fold; called often, cheap when nothing changed.

        None wants what the engine assigns to this process; only with the capability `assigns`.
        A grant is a new claim with a higher epoch. Of several who claim, one can commit. Who was
        fenced is told once and does not claim again. Busy where the owner leaves no moment for it:
        call again. `generation` is how new the caller's classes are; OutdatedCode where newer ones
        folded.
        """

    def load(self, claim: Claim) -> Loaded:
        """All that was committed, for whoever folds on."""

    def commit(self, batches: Sequence[tuple[Claim, Commit]]) -> None:
        """Each batch atomically. Raises Fenced; DiskFull leaves nothing behind, so repeat it.

        A commit from another head than the stored one is refused. One that stands already is done:
        after any trouble but Fenced it may be repeated.
        """

    def compact(self, claim: Claim, images: Images) -> None:
        """For the owner to call after a commit: a moment in which stored states may be rewritten.

        Nobody sees a difference, and no trouble with it is raised: the commit stands. `images` are
        as of that commit.
        """

    # The next three only with the capability `rescales`.

    def close_intake(self, claim: Claim) -> None:
        """From now on the inbox refuses everything but messages with `Rescaling`, durably.

        Its time stands still: messages get the stamp of this moment, or timers that become due in
        front of them would send messages without end. Until `open_intake` or the next claim of the
        partition. Not by an older claim.
        """

    def open_intake(self, claim: Claim) -> None: ...

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        """Put `partitions` new ones in the place of those that live, in one durable step.

        Refused with Fenced unless every live partition is claimed, Rescaling unless each has its
        intake closed and is drained: all folded, the outbox empty, every message taken; UsageError
        if they know more sources together than one may. Then nothing has changed. What the new ones
        inherit is said in inheritance.py.
        """

    # The next one only with the capability `captures`.

    def capture(self) -> Contents:
        """A consistent cut through all partitions, to be read at leisure, then closed.

        Every event acknowledged before is in it, every message is in it once, and none without the
        commit that sent it. Writers go on, and what they do later is not in it. Rescaling while
        partitions are being replaced, Busy where appenders leave no moment for it: call again.

        Planting it makes the same fleet anew elsewhere, whole or not at all: incarnations,
        positions, dedupe, marks, timers, open calls, dead letters, fates of actions, stamps and
        what waits go on from there. History stays behind: of events, actions and the journal only
        the counters are planted.
        """

    def folding(self, claim: Claim, position: int | None) -> None:
        """Note that user code runs at `position` now (None: no longer): finds events that kill. It
        may be a place in the lane.

        It outlives the process, not the machine.
        """

    def view(self, partition: int, wait_seconds: float = VIEW_SECONDS) -> View:
        """Its calls wait for others who have the answer for about `wait_seconds`, then TryAgain."""

    def hides(self, partition: int) -> bool:
        """Whether events may have been taken there that nobody can read yet.

        As behind a commit elsewhere that has not ended; it passes.
        """

    def paused_seconds(self, partition: int) -> float | None:
        """For how long it stood still when it was handed over last, as far as events waited.

        None where nobody tells.
        """

    def folds_here(self, partition: int) -> bool:
        """Whether the calls of its agents are for this machine to run."""

    def wait(self, seconds: float) -> None:
        """Sleep until something was appended to a partition granted here, or `seconds` passed.

        What was appended since the last `wait` ends it at once.
        """

    def wake(self) -> None:
        """End a `wait` of this process, from another thread; the next one, if there is none now."""

    def maintain(self) -> None:
        """Work that is off the commit path: checkpoints, compaction, retention. Any thread.

        But for what is past retention, nobody sees a difference.
        """

    def close(self) -> None: ...
