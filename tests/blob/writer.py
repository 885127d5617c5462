"""A process that puts objects into a folder, and kills itself at a fault point of one of them."""

import os
import signal
import sys
from pathlib import Path

from holdfast.blob.files import FileBlob

if __name__ == "__main__":
    root, point, at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    number = 0

    def fault(name: str) -> None:
        if name == point and number == at:
            os.kill(os.getpid(), signal.SIGKILL)

    blob = FileBlob(root, fault)
    for number in range(at + 1):
        blob.put_if_absent(f"log/{number}", str(number).encode() * 1_000_000)
        print(number, flush=True)
