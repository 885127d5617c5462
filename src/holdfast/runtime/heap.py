"""What a worker does with memory it has freed: keep it, for the next batch is as large as this one.

By default glibc gives every large block back to the kernel at once and asks for it again a moment
later, and the kernel clears it page by page each time: a fifth of the processor time of a worker
that folds columns.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the names of <malloc.h>
KEPT_BYTES_MAX = 64 * 1024 * 1024  # at the end of the heap
BLOCK_BYTES_MAX = 32 * 1024 * 1024  # larger blocks come and go one by one, and glibc takes no more


def keep_freed_memory() -> None:
    """Where the C library is another, it stays as it is."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_MMAP_THRESHOLD, BLOCK_BYTES_MAX)
