"""Goal: memory that is freed stays with the process, so that it is not cleared again and again."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import mmap, resource
from holdfast.runtime.heap import keep_freed_memory
keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        blocks = [bytearray(3_000_000) for _ in range(4)]
        for block in blocks:
            block[:] = b"x" * len(block)
        del blocks, block
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults() * mmap.PAGESIZE // 1_000_000)
"""


def cleared(**environment: str) -> int:
    """Megabytes that the kernel had to clear for 240 MB, after as many before."""
    words = [sys.executable, "-c", PROGRAM]
    told = subprocess.run(
        words, check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return int(told.stdout)


@pytest.mark.skipif(
    "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""), reason="another C library"
)
def test_it_is_kept_unless_the_user_says_otherwise() -> None:
    assert cleared() < 20
    assert cleared(MALLOC_TRIM_THRESHOLD_="131072") > 100
