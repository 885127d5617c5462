"""Goal: the reference fold and the real stepper agree on whatever Hypothesis makes agents do.

The scripted agents of the stepping tests obey their events: timers of all kinds, failures of all
kinds, pauses, deferring, expiry. Their inputs are folded in random cuts by the real stepper, and
the oracle is asked for its verdict. No worker and no engine is involved.
"""

from __future__ import annotations

from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.event import Event
from holdfast.model.keys import SLOTS
from holdfast.runtime.sending import Receipt
from holdfast.testing.simulation.decoding import inputs_of
from holdfast.testing.simulation.evidence import (
    Accepted,
    Ask,
    Attempted,
    Command,
    Evidence,
    PartitionLog,
    Send,
)
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.verdict import judge
from tests.stepping.rig import Bench
from tests.stepping.scripted import FLEET, Do, Plain
from tests.stepping.test_cuts import FRAMES, Append, folded, plain_frames


def evidence_of(bench: Bench) -> Evidence:
    """What a bench has folded, as if a worker had done it. Messages are left in its outbox."""
    log = PartitionLog(0, range(SLOTS), "bench", frames=bench.inbox.frames)
    log.commits = [
        Accepted(float(at), "worker", 0, 1, commit) for at, commit in enumerate(bench.commits)
    ]
    schemas = bench.codebook._stored
    evidence = Evidence([FLEET], dict(schemas), [[log]])
    for one in (each for frame in log.frames for each in inputs_of(frame)):
        who, receipt = (one.agent, one.key), Receipt(((0, one.position + 1),))
        if one.command is not None:
            said = Command("o", *who, one.command, 0.0, 0.0, "acknowledged", receipt)
            evidence.commands.append(said)
        event = None
        if one.command is None:
            event = cast(Event, bench.codebook.reader_of(one.raw[0]).row(one.raw[1]))
        if one.answers is not None:
            call = next(call for call in bench.calls if call.id == one.answers[0])
            ran = Attempted(call.id, call.function, call.arguments, 1e9, event)
            evidence.attempts.append(ran)
        if one.origin != "external" or event is None:
            continue
        if one.asks:
            evidence.asks.append(Ask("client", *who, event, 0.0, 1e6, None, None))
        else:
            sent = Send("c", "test", one.seq, *who, event, 0.0, 0.0, "acknowledged", receipt)
            evidence.sends.append(sent)
    return evidence


def found_in(bench: Bench) -> list[str]:
    """Messages are not carried here, so a run never comes to rest; and there is no lane, so all
    commands are in the inbox, as of old. All else must be right."""
    told = (str(each) for each in judge(evidence_of(bench)) if each.promise is not Promise.SETTLES)
    return [each for each in told if "stands where it does not belong" not in each]


@settings(max_examples=60, deadline=None)
@given(FRAMES, st.sets(st.integers(1, 40), max_size=6), st.booleans())
def test_the_reference_agrees_with_the_stepper(
    frames: list[Append], cuts: set[int], reopen: bool
) -> None:
    assert found_in(folded(frames, cuts, reopen=reopen)) == []


def test_the_reference_notices_a_fold_that_is_wrong() -> None:
    bench = folded(plain_frames([[(Plain, "a", Do(["add"])), (Plain, "a", Do(["draw"]))]]), set())
    assert found_in(bench) == []
    record = bench.commits[0].records[0]
    bench.commits[0].records[0] = record._replace(version=record.version - 1)
    assert any("Plain/a has version 1, expected 2" in each for each in found_in(bench))
