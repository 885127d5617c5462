"""A rescaling process: `python -m tests.kills.rescaler FLEET URL PARTITIONS`.

What `holdfast rescale` does, without its texts. HOLDFAST_FAULT decides where it dies.
"""

import sys

from holdfast.runtime.faulting import faults_from_environment
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.rescaling import rescale


def main(fleet: str, url: str, partitions: str) -> None:
    loaded = load_fleet(fleet)
    print("ready", flush=True)
    print(rescale(loaded, url, int(partitions), faults=faults_from_environment()))


if __name__ == "__main__":
    main(*sys.argv[1:4])
