"""Goal: what is unpacked is what was packed, of a size bounded before memory is taken for it.

What a seal finds is tested with the objects of the archive (tests/archiving/test_objects.py).
"""

import pytest

from holdfast.blob.sealing import Seal, pack, unpack
from holdfast.errors import DamagedData

SEAL = Seal(b"TEST", 1, 3, "look elsewhere")


def test_a_body_within_its_bound() -> None:
    assert unpack(pack(b"x" * 1000, 3), 1000) == b"x" * 1000
    with pytest.raises(ValueError, match="it says that it has 1,000 bytes"):
        unpack(pack(b"x" * 1000, 3), 999)


@pytest.mark.parametrize("packed", [b"", b"no zstd", pack(b"x" * 1000, 3)[:-1]])
def test_what_nobody_packed(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpack(packed, 1000)


def test_an_object_of_another_kind() -> None:
    other = Seal(b"ELSE", 1, 3, "")
    with pytest.raises(DamagedData, match=r"x: damaged .*does not begin.*: look elsewhere"):
        SEAL.open("x", other.close(b"body"))
    assert SEAL.open("x", SEAL.close(b"body")) == b"body"
