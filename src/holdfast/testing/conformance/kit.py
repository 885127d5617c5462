"""The conformance kit: one class whose tests say what an engine has to do.

An adapter's test supplies its engine and its capabilities, and inherits everything else:

    class TestMyEngine(EngineConformance):
        capabilities = MyEngine.capabilities

        def make_engine(self, *, partitions, limits, clock):
            return MyEngine(FLEET, partitions, limits, clock)

        def reopen(self, engine):
            return MyEngine.attach(engine)

Tests that need a capability the engine lacks are skipped and say so. Bounds of a disk, damaged
files and several processes are matters of one engine and not tested here.
"""

from __future__ import annotations

from holdfast.testing.conformance.admissions import AdmissionConformance
from holdfast.testing.conformance.appends import AppendConformance
from holdfast.testing.conformance.claims import ClaimConformance
from holdfast.testing.conformance.commits import CommitConformance
from holdfast.testing.conformance.rescales import RescaleConformance
from holdfast.testing.conformance.stamps import StampConformance
from holdfast.testing.conformance.views import ViewConformance


class EngineConformance(
    AppendConformance,
    AdmissionConformance,
    StampConformance,
    CommitConformance,
    ViewConformance,
    ClaimConformance,
    RescaleConformance,
):
    """Every sentence of the engine port, as a test."""
