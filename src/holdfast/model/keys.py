"""Keys of agents, and where a key lives: the published hash and the layout of partitions.

The grammar is narrow on purpose: a key is part of topics, paths and command lines elsewhere, and
ids with `/`, `+` or `#` have broken access rules of other systems. Who owns a partition at run time
is not known here.
"""

import re
import zlib
from dataclasses import dataclass, field
from itertools import pairwise

from holdfast.errors import UsageError

SLOTS = 1024
SPREAD = 0x9E3779B1
KEY_LENGTH_MAX = 128

_grammar = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_matches = _grammar.fullmatch


def check_key(key: str) -> None:
    """Refuse what is not a key, so that every key in the system is one."""
    if not is_key(key):
        raise UsageError(f"{shortened(key)} cannot be a key: {why_not_a_name(key)}")


def is_key(key: object) -> bool:
    return isinstance(key, str) and _matches(key) is not None


def plain_text(text: str) -> str:
    """The same as a plain `str`, which can be stored: members of an Enum and numpy's texts are
    others."""
    if type(text) is not str:
        text = str.__str__(text)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{text!r} is no text that can be stored: change it") from None
    return text


def why_not_a_name(text: object) -> str:
    """The rule that a key or a fleet name breaks, and what would do."""
    rule = "use letters, digits and . _ : - only, beginning with a letter or digit"
    if not isinstance(text, str):
        return f"it is of type {type(text).__name__}; give a string"
    if not text:
        return "it is empty; give at least one letter or digit"
    if len(text) > KEY_LENGTH_MAX:
        return f"it has {len(text)} characters; {KEY_LENGTH_MAX} is the most"
    if _grammar.fullmatch(text[0]) is None:
        return f"it begins with {text[0]!r}; {rule}"
    wrong = next((letter for letter in text if _grammar.fullmatch("a" + letter) is None), "")
    return f"it contains {wrong!r}; {rule}"


def shortened(value: object, most: int = 60) -> str:
    """A value for a message, cut so that a huge one does not fill the screen."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def slot_of(key: str) -> int:
    """The published placement of a key. It depends on nothing but the key and never changes.

    CRC-32 of the key, multiplied by SPREAD modulo 2**32, the upper ten bits of that. The CRC alone
    would put d-0 to d-9 side by side.
    """
    return (zlib.crc32(key.encode()) * SPREAD & 0xFFFFFFFF) >> 22


@dataclass(frozen=True)
class Layout:
    """Which range of slots each partition owns; together they cover every slot once, in order.

    Partitions are numbered on from `first`. Numbers are never used twice: after a rescaling the
    new partitions have higher ones.
    """

    partitions: tuple[range, ...]
    first: int = 0
    partition_by_slot: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        owner: list[int] = []
        for number, slots in self.slots_by_number.items():
            if slots.step != 1 or slots.start != len(owner) or not len(slots):
                raise UsageError(
                    f"partition {number} owns {slots}, but has to begin at slot {len(owner)}: "
                    f"ranges follow each other, without gaps, and none is empty"
                )
            owner.extend(number for _ in slots)
        if len(owner) != SLOTS:
            raise UsageError(f"the partitions cover {len(owner)} slots; there are {SLOTS}")
        object.__setattr__(self, "partition_by_slot", tuple(owner))

    @classmethod
    def even(cls, partitions: int, first: int = 0) -> "Layout":
        """Partitions of equal size, as far as 1,024 can be divided."""
        if not 1 <= partitions <= SLOTS:
            raise UsageError(f"{partitions} partitions are not possible: give 1 to {SLOTS}")
        edges = [number * SLOTS // partitions for number in range(partitions + 1)]
        return cls(tuple(range(a, b) for a, b in pairwise(edges)), first)

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + len(self.partitions))

    @property
    def slots_by_number(self) -> dict[int, range]:
        return dict(zip(self.numbers, self.partitions, strict=True))

    def partition_of(self, key: str) -> int:
        return self.partition_by_slot[slot_of(key)]
