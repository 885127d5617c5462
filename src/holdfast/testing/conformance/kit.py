"""The conformance kit: one class whose tests say what an engine has to do.

An adapter's test supplies its engine and its capabilities, and inherits everything else:

    class TestMyEngine(EngineConformance):
        capabilities = MyEngine.capabilities

        def make_engine(self, *, partitions, limits, clock):
            return MyEngine(FLEET, partitions, limits, clock, self.faults)

        def reopen(self, engine):
            return MyEngine.attach(engine)

        fault_points = frozenset({"append.inside", "commit.inside"})  # if it calls them

Tests that need a capability or a fault point the engine lacks are skipped and say so. Damaged files
and real processes are matters of one engine and not tested here. docs/write-an-engine.md walks
through all of it.
"""

from __future__ import annotations

from holdfast.testing.conformance.admissions import AdmissionConformance
from holdfast.testing.conformance.appends import AppendConformance
from holdfast.testing.conformance.blocks import BlockConformance
from holdfast.testing.conformance.bounds import BoundConformance
from holdfast.testing.conformance.calls import CallConformance
from holdfast.testing.conformance.captures import CaptureConformance
from holdfast.testing.conformance.claims import ClaimConformance
from holdfast.testing.conformance.commits import CommitConformance
from holdfast.testing.conformance.concurrency import ConcurrencyConformance
from holdfast.testing.conformance.crashes import CrashConformance
from holdfast.testing.conformance.fates import FateConformance
from holdfast.testing.conformance.intakes import IntakeConformance
from holdfast.testing.conformance.lanes import LaneConformance
from holdfast.testing.conformance.notes import NoteConformance
from holdfast.testing.conformance.rescales import RescaleConformance
from holdfast.testing.conformance.stamps import StampConformance
from holdfast.testing.conformance.upkeep import UpkeepConformance
from holdfast.testing.conformance.views import ViewConformance
from holdfast.testing.conformance.waits import WaitConformance


class EngineConformance(
    AppendConformance,
    AdmissionConformance,
    StampConformance,
    BoundConformance,
    LaneConformance,
    CommitConformance,
    BlockConformance,
    NoteConformance,
    FateConformance,
    ViewConformance,
    CallConformance,
    ClaimConformance,
    ConcurrencyConformance,
    CrashConformance,
    WaitConformance,
    UpkeepConformance,
    IntakeConformance,
    RescaleConformance,
    CaptureConformance,
):
    """Every sentence of the engine port, as a test."""
