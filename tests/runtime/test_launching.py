"""Goal: the launcher does not depend on how many files its process has open."""

import fcntl
import os
import resource

from holdfast.runtime.calling.bell import ring
from holdfast.runtime.launching import Launcher


def test_a_bell_with_a_high_number_is_heard() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    launcher = Launcher("fleet.py", "sqlite:data", 1, [0])
    low, launcher._bell = launcher._bell, fcntl.fcntl(launcher._bell, fcntl.F_DUPFD_CLOEXEC, 2_000)
    try:
        launcher._sleep(0.0)
        assert not launcher._calls
        ring(launcher._bell)
        launcher._sleep(0.0)
        assert launcher._calls
    finally:
        os.close(low)
        os.close(launcher._bell)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
