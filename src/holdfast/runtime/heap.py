"""Freed memory is kept for the next batch, which is about as large, by whoever folds or sends
columns.

By default glibc gives large blocks back to the kernel at once and asks for them again a moment
later, and the kernel clears them page by page each time: half of the time it takes to encode or to
read a large frame.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the names of <malloc.h>
KEPT_BYTES_MAX = 64 * 1024 * 1024  # at the end of the heap
MAPPED_BYTES_MIN = 32 * 1024 * 1024  # larger pieces are mapped one by one; glibc allows no more


@cache
def keep_freed_memory() -> None:
    """Once for a process, unless the user has said how it is to be, or the C library is another."""
    if {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"} & os.environ.keys():
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
