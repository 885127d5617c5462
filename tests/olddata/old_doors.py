"""What wrote the directory `compensated/`, in the release before actions had other fates than that.

    python -m tests.olddata.old_doors

It is checked in as that release left it: this one would write another format.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw

from tests.runtime.doors import Close, Door, fleet

COMPENSATED = Path(__file__).parent / "compensated"
FIRST = "doors/Door/d-1/1/0"
WHY = "the wrong door"


def write() -> None:
    shutil.rmtree(COMPENSATED, ignore_errors=True)
    with fleet.open(f"sqlite:{COMPENSATED}", partitions=1) as live:
        live.send(Door, "d-1", Close())
        live.send(Door, "d-2", Close())
        live.settle()
        live.compensate(FIRST, WHY)
    for path in [*COMPENSATED.rglob("*.db"), *COMPENSATED.rglob("*.seg")]:
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA user_version")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.close()
    for path in COMPENSATED.rglob("*"):
        if path.is_file() and path.suffix not in (".db", ".seg"):
            path.unlink()


if __name__ == "__main__":
    write()
