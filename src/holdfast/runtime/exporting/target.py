"""Where rows go, and how far an export has come: the port that every target fills.

A target keeps rows and places together. Whatever ends the process, the rows in it are those before
its places, each once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol, TypeAlias

from holdfast.errors import TryAgain

Kind: TypeAlias = Literal["events", "states", "actions"]
KINDS: tuple[Kind, ...] = ("events", "states", "actions")


class Place(NamedTuple):
    """How far one partition is exported."""

    partition: int
    incarnation: str
    position: int = 0  # events: the next inbox position; actions: the next number
    fired: int = 0  # the next number of the journal
    stamp: float = 0.0  # of what stands right before the position: another history has another


class Batch(NamedTuple):
    """Rows as columns, each a list of equal length. `table` is the kind, or the class of states.

    A batch of states has the columns agent, key, version, updated, gone and state, where the state
    is a dict of values, empty for an agent that is gone.
    """

    table: str
    columns: dict[str, list[object]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))


class Lost(TryAgain):
    """The target went away in the middle; after `reopen` its places say what it has kept."""


class Target(Protocol):
    def places(self) -> dict[int, Place]:
        """Where the last export ended, by partition."""

    def clear(self) -> None:
        """Forget rows and places of this kind."""

    def write(self, batches: Iterable[Batch], before: Place | None, after: Place) -> int:
        """Take all rows and the new place together, or nothing; how many rows that were."""

    def reopen(self) -> None:
        """After Lost: be there again, or raise Lost once more."""

    def close(self) -> None: ...
