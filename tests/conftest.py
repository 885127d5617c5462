"""For every test: settings of property tests, and lines that a test wants people to see.

Machines differ, so slowness is no failure of a property; seeds are shown.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.servers.kafka import kafka
from tests.servers.seaweed import s3_keys, seaweed

__all__ = ["kafka", "s3_keys", "seaweed"]  # fixtures for every test

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started as a background job: then programs under test would not hear a Ctrl-C either.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Fleets of the tests have no gateway unless a test asks for one: they would all want one port.
os.environ["HOLDFAST_PORT"] = "none"

settings.register_profile(
    "holdfast", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("holdfast")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A test says `record_property("summary", line)`, and the line stands at the end of the run."""
    for report in terminalreporter.stats.get("passed", []):
        for name, line in report.user_properties:
            if name == "summary":
                terminalreporter.write_line(f"{report.nodeid}: {line}")
