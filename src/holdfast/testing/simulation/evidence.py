"""Evidence: what a simulated run leaves behind, for an oracle that was not there.

Written by the simulated store and by the clients while the run goes on; judged after it. Times are
true virtual seconds, which no process of the simulation can see: their clocks jump and drift.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from holdfast.model.agent import Agent
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.schema import Schema
from holdfast.runtime.sending import Receipt
from holdfast.stepping.commit import Call, Commit, Head, Record
from holdfast.stepping.inputs import StoredFrame

Outcome = Literal["acknowledged", "unknown", "refused"]


class Accepted(NamedTuple):
    """A commit that the store made durable."""

    at: float
    process: str  # who made it, such as "worker 7"
    program: int  # index in Evidence.programs: the classes that folded it
    epoch: int
    commit: Commit


@dataclass
class PartitionLog:
    """Everything that ever became durable in one partition, in order. Retention does not act."""

    number: int
    slots: range
    incarnation: str
    inherited: list[Record] = field(default_factory=list)  # what it was born with, by a rescale
    born: Head = field(default_factory=Head)  # its head then
    calls: list[Call] = field(default_factory=list)  # open ones it was born with
    first: int = 0  # position of its first event
    frames: list[StoredFrame] = field(default_factory=list)
    lane: list[StoredFrame] = field(default_factory=list)  # of urgent events, one each
    came: list[float] = field(default_factory=list)  # when those of the lane were durable
    commits: list[Accepted] = field(default_factory=list)


class Send(NamedTuple):
    """One attempt to send one event. Attempts with the same source and number are resends."""

    client: str
    source: str
    seq: int
    agent: str
    key: str
    event: Event
    began: float
    ended: float
    outcome: Outcome  # unknown: it raised TryAgain, or its process died; it may be durable
    receipt: Receipt | None


class Read(NamedTuple):
    """A committed state as a client saw it; with `after`, those events must be included."""

    client: str
    agent: str
    key: str
    after: Receipt | None
    began: float
    ended: float
    state: Agent | None


class Look(NamedTuple):
    """How far a client saw a partition to be."""

    client: str
    partition: int
    at: float
    head: Head


class Page(NamedTuple):
    """Actions a client got by following its cursor, in the order it got them: their ids."""

    client: str
    at: float
    ids: tuple[str, ...]


class Ask(NamedTuple):
    """A question and what came of it. `reply` is None when it raised; `error` says why."""

    client: str
    agent: str
    key: str
    event: Event
    began: float
    ended: float
    reply: Event | None
    error: str | None
    failed: bool = False  # it was told that there is no reply and never will be


class Command(NamedTuple):
    """One attempt of an operator to pause or resume an agent, or to redrive a dead letter."""

    client: str
    agent: str
    key: str
    command: list[object]  # as the inbox has it
    began: float
    ended: float
    outcome: Outcome
    receipt: Receipt | None


class Attempted(NamedTuple):
    """A function that ran for a call, once more perhaps: with what, and what it returned."""

    call: str
    function: str
    arguments: bytes
    at: float
    returned: Event | None  # None: nothing, or nobody heard of it


class Listing(NamedTuple):
    """All keys of a class, all paused agents or all dead letters, as a client was told."""

    client: str
    at: float
    what: Literal["states", "paused", "letters"]
    agent: str  # the class, for states
    partitions: tuple[int, ...]  # those that lived
    names: tuple[str, ...]


@dataclass
class Evidence:
    programs: list[FleetModel]  # the releases of the user's classes, in the order of upgrades
    schemas: dict[int, Schema]
    generations: list[list[PartitionLog]]  # the last one lives; each one was drained by a rescale
    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    attempts: list[Attempted] = field(default_factory=list)
    premature: list[tuple[float, int]] = field(default_factory=list)  # when and into which inbox a
    # message came before the commit that sent it
    condemned: set[tuple[int, int]] = field(default_factory=set)  # (partition, position): its
    # input ended its worker again and again, so it may be buried without being run
    ended: float = 0.0
    quiet: bool = False  # the liveness phase reached a state in which nothing waits
    clock_at_quiet: float = 0.0  # what the workers' clocks showed then: timers due by it have fired
