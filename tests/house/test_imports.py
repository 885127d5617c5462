"""Goal: a worker starts quickly, since a takeover waits for it: it imports only what it needs."""

import subprocess
import sys

NOT_NEEDED = {
    "asyncio",
    "importlib.metadata",
    "multiprocessing",
    "numba",
    "numpy",
    "rich",
    "zstandard",
    "holdfast.runtime.archiving.shipper",
    "holdfast.runtime.calling.caller",
    "holdfast.runtime.exporting",
    "holdfast.runtime.forking",
    "holdfast.runtime.replaying",
    "holdfast.runtime.snapshots",
}


def test_a_worker_imports_what_it_needs() -> None:
    program = "import sys, holdfast.runtime.process; print('\\n'.join(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    imported = set(result.stdout.split())
    assert "holdfast.runtime.worker" in imported
    assert imported & NOT_NEEDED == set()
