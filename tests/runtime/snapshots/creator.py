"""A process that makes a snapshot and may be killed by HOLDFAST_FAULT at a put of it."""

import sys
from pathlib import Path

from holdfast.blob.files import FileBlob
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.runtime.faulting import faults_from_environment
from holdfast.runtime.snapshots.creating import Creation
from holdfast.runtime.snapshots.store import SnapshotStore

if __name__ == "__main__":
    data, place, name = sys.argv[1:]
    store = SnapshotStore(FileBlob(Path(place), faults_from_environment()))
    Creation(SqliteEngine(Path(data)), store).run(name)
