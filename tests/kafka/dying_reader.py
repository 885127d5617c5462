"""A reader of source topics that dies after its events are durable, before that is committed:
`python -m tests.kafka.dying_reader TIMES …`, with the words of the real one behind it."""

import os
import sys
from collections.abc import Sequence

from holdfast.runtime.sourcing import process
from holdfast.runtime.sourcing.batching import Batch
from holdfast.runtime.sourcing.reading import SourceReader

EXIT = 17


class Dying(SourceReader):
    left = 0  # so often it commits

    def _commit(self, done: Sequence[Batch]) -> None:
        if done and Dying.left == 0:
            os._exit(EXIT)
        Dying.left -= bool(done)
        super()._commit(done)


if __name__ == "__main__":
    Dying.left = int(sys.argv[1])
    vars(process)["SourceReader"] = Dying
    sys.exit(process.run(*sys.argv[2:]))
