"""Prepared keys: checked, encoded and routed once, for any number of sends in columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.model.agent import Agent
from holdfast.model.keys import Layout, check_key, plain_text, shortened
from holdfast.stepping.kernels import prepare_kernels
from holdfast.stepping.names import Names

if TYPE_CHECKING:
    from holdfast.stepping.arrays import Array


class Keys:
    """The key of every row of a send. `keys[indexes]` selects, repeats and reorders rows."""

    def __init__(self, agent: type[Agent], table: KeyTable, codes: Array) -> None:
        self.agent = agent
        self.table = table
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        names = self.table.names
        return (names[code].decode() for code in self.codes.tolist())

    def __getitem__(self, indexes: Array | Sequence[int] | slice) -> Keys:
        import numpy

        if isinstance(indexes, int) or getattr(indexes, "shape", None) == ():
            raise UsageError(f"keys[{shortened(indexes)}] is one key: write keys[[{indexes}]]")
        try:
            if isinstance(indexes, (list, tuple)):
                # An empty list would be one of floats.
                indexes = numpy.array(indexes) if indexes else slice(0)
            chosen = self.codes[indexes]
        except (IndexError, ValueError, TypeError) as error:
            raise UsageError(
                f"keys[…] of {len(self):,} keys: {error}; give an array of integers, or a slice"
            ) from None
        if chosen.ndim != 1:
            raise UsageError(f"keys[…] got indexes of {chosen.ndim} dimensions: give one")
        return Keys(self.agent, self.table, numpy.ascontiguousarray(chosen))

    def __repr__(self) -> str:
        return f"<{len(self):,} keys of {self.agent.__name__}>"


class KeyTable:
    """Distinct keys, and where each lives, by the layout of the day."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.names = Names([key.encode() for key in keys])
        self._keys = keys
        self._routed: tuple[Layout, Array] | None = None

    @cached_property
    def digest(self) -> bytes:
        return hashlib.blake2b("\n".join(self._keys).encode()).digest()

    def routes(self, layout: Layout) -> Array:
        """For every key the place of its partition in the layout."""
        import numpy

        routed = self._routed
        if routed is None or routed[0] is not layout:
            places = (layout.partition_of(key) - layout.first for key in self._keys)
            routed = layout, numpy.fromiter(places, "u2", len(self._keys))
            self._routed = routed
        return routed[1]


def prepare_keys(agent: type[Agent], names: Iterable[str]) -> Keys:
    import numpy

    single = isinstance(names, (str, bytes)) or getattr(names, "shape", None) == ()
    if single or not isinstance(names, Iterable):
        raise UsageError(f"keys got {shortened(names)}: give a list of names")
    given = [plain_text(name) if isinstance(name, str) else name for name in names]
    for key in given:
        check_key(key)
    places = {key: place for place, key in enumerate(dict.fromkeys(given))}
    codes = numpy.fromiter(map(places.__getitem__, given), "u4", len(given))
    prepare_kernels()
    return Keys(agent, KeyTable(list(places)), codes)
