"""For every test: settings of property tests, and lines that a test wants people to see.

Machines differ, so slowness is no failure of a property.
"""

import os
import shutil
import signal
import sys

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.run import place, speed
from tests.servers.kafka import kafka
from tests.servers.seaweed import s3_keys, seaweed

pytest_plugins = ["tests.run.leftovers"]
__all__ = ["kafka", "s3_keys", "seaweed"]  # fixtures for every test

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started as a background job: then programs under test would not hear a Ctrl-C either.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Tests start thousands of processes, each of which would compile all it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Before anybody asks for a temporary folder.
_OWN_PLACE = place.choose()
speed.measure()

# Fleets of the tests have no gateway unless a test asks for one: they would all want one port.
os.environ["HOLDFAST_PORT"] = "none"

# What programs and pytest itself print is compared as it is for nobody's terminal.
for _name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "TTY_COMPATIBLE", "PYTEST_ADDOPTS"):
    os.environ.pop(_name, None)

settings.register_profile(
    "holdfast",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,  # the same examples each time
)
settings.register_profile("soak", settings.get_profile("holdfast"), derandomize=False)
settings.load_profile("holdfast")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test is imported: chance is for those who look for something new."""
    if "soak" in config.option.markexpr:
        settings.load_profile("soak")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Behind those of folders, which mark some, and before pytest looks at marks.

    Whoever wants what is marked `soak` says so (`-m soak`).
    """
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.chance)
    if "soak" not in config.option.markexpr:
        soaking = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=soaking)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]


@pytest.hookimpl(trylast=True)  # fixtures of the whole run end before
def pytest_sessionfinish(exitstatus: int) -> None:
    if _OWN_PLACE is not None and exitstatus == pytest.ExitCode.OK:  # else somebody wants to look
        shutil.rmtree(_OWN_PLACE, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A test says `record_property("summary", line)`, and the line stands at the end of the run."""
    for report in terminalreporter.stats.get("passed", []):
        for name, line in report.user_properties:
            if name == "summary":
                terminalreporter.write_line(f"{report.nodeid}: {line}")
