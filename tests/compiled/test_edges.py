"""Goal: the places where kernels differed from the interpreter, or could, each with the least that
it takes: timers that leave their slots, agents without an event, values without a column."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.model.agent import Agent
from holdfast.model.compiling.module import GLANCE_ROWS_MIN
from holdfast.model.event import Event
from holdfast.stepping.blocks import Block
from holdfast.stepping.commit import Record
from holdfast.stepping.compiled import storing
from holdfast.stepping.compiled.kernels.arithmetic import steps
from holdfast.stepping.compiled.kernels.jit import entry
from holdfast.stepping.compiled.kind import Kernel
from holdfast.stepping.stepper import Stepper
from tests.compiled.agents import FLEET, Clerk, Drone, Scribe, Strict
from tests.compiled.events import Calc, Do, Op, Raised, Ring, Tick, Told, Write
from tests.compiled.meter import Meter
from tests.compiled.twins import LAYOUT, Twins

Kernels = Mapping[str, Kernel]


@pytest.fixture
def twins(kernels: Kernels) -> Twins:
    return Twins(FLEET, kernels)


def test_a_timer_that_is_only_cancelled(twins: Twins) -> None:
    """ "never" is cancelled and set by nobody: it has no events, and its agents are stored."""
    twins.inbox.put([(Drone, "d-1", Do(5)), (Drone, "d-1", Do(2)), (Drone, "d-1", Do(5))], 10.0)
    twins.step(1)
    twins.compiled.reload(twins.kernels, compacted=True)
    twins.step(0, 20.0)
    assert twins.compiled.states() == twins.plain.states()


def test_chance_beyond_exact_floats(twins: Twins) -> None:
    numbers = [2**53 + 1, -(2**60), 2**61 - 5, 2**62, 0]
    twins.inbox.put([(Drone, f"d-{n}", Do(9, 1.0, n)) for n in map(abs, numbers)], 10.0)
    twins.inbox.put([(Drone, f"d-{abs(n)}", Do(9, 1.0, n)) for n in numbers], 11.0)
    twins.step(2)


def test_traces_name_nothing_of_ours(twins: Twins) -> None:
    """A number of more than 64 bits sends the frame to the interpreter, and another event fails."""
    events = [Calc(Op.ADD, 2**63), Calc(Op.DIVIDE), Calc(Op.ROOT, x=-1.0)]
    twins.inbox.put([(Meter, "m-1", event) for event in events], 10.0)
    commit = twins.step(1)
    assert len(commit.letters) == 2
    assert not any("stepping/compiled" in letter.trace for letter in commit.letters)


def test_a_timer_leaves_its_slot_at_the_same_time(twins: Twins) -> None:
    """Both timers of that name are due at once; the second has a payload that no slot holds."""
    twins.inbox.put([(Drone, "d-1", Ring(61)), (Drone, "d-1", Ring(2**63 - 1))], 10.0)
    twins.inbox.put([(Drone, "d-1", Tick())], 11.0)
    twins.step(1)
    assert twins.step(1).journalled is not None


def test_a_timer_comes_back_to_its_slot_at_the_same_time(twins: Twins) -> None:
    """And leaves it again for later."""
    twins.inbox.put([(Drone, "d-1", Ring(2**63 - 1, part=3.0))], 10.0)
    twins.inbox.put([(Drone, "d-1", Do(0, 3.0, 0))], 10.0)
    twins.inbox.put([(Drone, "d-1", Tick())], 14.0)
    twins.step(2)
    assert twins.step(1).journalled is not None
    twins.inbox.put([(Drone, "d-1", Ring(2**63 - 1, part=3.0))], 20.0)
    twins.inbox.put([(Drone, "d-1", Tick())], 30.0)
    twins.step(1)
    assert twins.step(1).journalled is not None


def test_a_timer_beside_its_slot_is_cancelled(twins: Twins) -> None:
    """The kernel does not see it, and must not touch its slot."""
    for at, what in enumerate([5, 0, 6]):
        key = f"d-{at}"
        twins.inbox.put([(Drone, key, Ring(2**63 - 1, part=3.0)), (Drone, key, Do(what))], 10.0)
    twins.step(3)
    twins.step(0, 20.0)


def test_a_paused_agent_takes_nothing(twins: Twins) -> None:
    """In the middle of frames for others, by rows and by columns; then all of it, in order."""
    for agent, event in ((Drone, Do(9)), (Meter, Calc(Op.ADD, 1, 2)), (Scribe, Write(4))):
        twins.inbox.command(agent, "k-1", ["pause", "why"], 10.0)
        twins.inbox.put([(agent, f"k-{n % 3}", event) for n in range(6)], 11.0)
        twins.put_columns(agent, ["k-0", "k-1", "k-1"], [event] * 3, 12.0)
    twins.step(9)
    for agent in (Drone, Meter, Scribe):
        twins.inbox.command(agent, "k-1", ["resume"], 13.0)
    twins.compiled.reload(twins.kernels, compacted=True)
    twins.step(3)
    versions = {each[0] for each in twins.plain.states().values()}  # type: ignore[index]
    assert versions == {2, 3, 4}


def test_an_agent_that_took_no_event_is_one(twins: Twins) -> None:
    """Paused before its first event, and let go: it is stored, and stays so in a compaction."""
    for at, command in enumerate(["pause", "resume"]):
        twins.inbox.command(Drone, "d-1", [command, "why"], 10.0 + at)
        twins.step(1)
    twins.compiled.reload(twins.kernels, compacted=True)
    assert ("Drone", "d-1") in twins.plain.states()
    assert twins.compiled.states() == twins.plain.states()
    twins.inbox.put([(Drone, "d-1", Do(1)), (Drone, "d-1", Do(9))], 20.0)
    twins.step(1)


def test_a_failed_first_event_leaves_no_agent(twins: Twins) -> None:
    twins.inbox.put([(Meter, "m-1", Calc(Op.DIVIDE)), (Scribe, "s-1", Write(17))], 10.0)
    twins.inbox.put([(Strict, "p-1", Ring(0)), (Clerk, "c-1", Told(2))], 11.0)
    twins.step(2)
    twins.compiled.reload(twins.kernels, compacted=True)
    assert twins.compiled.states() == twins.plain.states() == {}


@pytest.mark.parametrize("text", ["", "\0", "a\0", "\0\0\0\0\0\0\0\0", "日本語🛸", "\x7f\x80\xff"])
def test_texts_to_the_last_letter(twins: Twins, text: str) -> None:
    """Through rows and columns, state, block, timer payload, message and action."""
    for at, columns in enumerate([False, True]):
        events = [Write(0, text), Write(1, text), Write(2, text), Write(14, text)]
        if columns:
            twins.put_columns(Scribe, ["s-1"] * 4, events, 10.0 + at)
        else:
            twins.inbox.put([(Scribe, "s-1", event) for event in events], 10.0 + at)
        twins.step(1)
        twins.compiled.reload(twins.kernels, compacted=columns)
    assert twins.compiled.states() == twins.plain.states()


def test_messages_go_round_until_the_bound(twins: Twins) -> None:
    """64 hops, the last one fails in both."""
    twins.inbox.put([(Drone, "d-1", Told(80))], 10.0)
    commit = twins.step(1)
    for _ in range(80):
        twins.inbox.carry((out.frame for out in commit.outgoing), 11.0)
        if not twins.waiting():
            break
        commit = twins.step(1)
    [letter] = [each for made in twins.plain.commits for each in made.letters]
    assert "64 hops" in letter.error


def test_more_timers_than_an_agent_may_have(twins: Twins) -> None:
    log = (Drone, "d-1", Do(10))  # which the interpreter does
    twins.inbox.put([(Drone, "d-1", Do(13))] * 9 + [log] + [(Drone, "d-1", Do(13))] * 5, 10.0)
    commit = twins.step(1)
    assert len(commit.letters) == 2
    twins.compiled.reload(twins.kernels, compacted=True)
    twins.step(0, 12.0)


def test_a_periodic_timer_of_a_paused_agent(twins: Twins) -> None:
    """What a pause makes it miss is one firing, after it."""
    twins.inbox.put([(Strict, "p-1", Do(1, number=4)), (Drone, "d-1", Do(3))], 10.0)
    twins.step(1)
    for agent, key in ((Strict, "p-1"), (Drone, "d-1")):
        twins.inbox.command(agent, key, ["pause", ""], 10.5)
    twins.step(2, 11.0)
    for clock in (14.0, 19.0, 33.0):
        twins.step(0, clock)
        twins.compiled.reload(twins.kernels, compacted=True)
    for agent, key in ((Strict, "p-1"), (Drone, "d-1")):
        twins.inbox.command(agent, key, ["resume"], 40.0)
    twins.step(2, 41.0)
    twins.step(0, 50.0)


def test_compensated_actions_between_others(twins: Twins) -> None:
    row = twins.codebook.pack_one(Raised(3))
    undo = ["compensate", "twins/Drone/d-1/1/0", "why", twins.codebook.id_of(Raised), row]
    twins.inbox.put([(Drone, "d-1", Do(14, number=3)), (Drone, "d-1", Do(10))], 10.0)
    twins.inbox.command(Drone, "d-1", undo, 11.0)
    twins.inbox.put([(Drone, "d-1", Do(14, number=2)), (Clerk, "c-1", Do(1))], 12.0)
    twins.inbox.command(Drone, "d-1", undo, 13.0)
    commit = twins.step(4)
    assert len(commit.fates) == 1
    assert [answer.status for answer in commit.answers] == ["reply", "failed"]


def test_many_watchdogs(twins: Twins) -> None:
    """More than fit into a heap: put off, cancelled, drawn nearer, and then all of them."""
    keys = [f"d-{n}" for n in range(200)]
    for at, (what, seconds) in enumerate([(0, 5.0), (0, 6.0), (6, 4.0), (5, 0.0), (0, 9.0)]):
        own = keys[at * 30 :] if at != 3 else keys[10:20]
        twins.inbox.put([(Drone, key, Do(what, seconds, 3)) for key in own], 10.0 + at)
    for _ in range(5):
        twins.step(1)
    for clock in (15.5, 16.0, 16.5, 18.0, 24.0):
        twins.step(0, clock)
    assert len(twins.plain.script()) == 190
    assert twins.compiled.states() == twins.plain.states()


@pytest.mark.parametrize("agent", [Scribe, Meter])
def test_a_misfit_that_the_next_event_repairs(twins: Twins, agent: type[Agent]) -> None:
    """A text too long, a number too large: each event fails by itself, whoever folds the batch."""
    events: list[Event] = [Write(1, "123456789"), Write(1, "short")]
    if agent is Meter:
        events = [Calc(Op.MULTIPLY, 2**62, 2**62), Calc(Op.ADD, 1, 2)]
    twins.inbox.put([(agent, "k-1", event) for event in events], 10.0)
    plain = Stepper(FLEET, LAYOUT, twins.codebook, lambda _: None).step(twins.waiting())
    commit = twins.step(1)
    twins.compare(commit, plain)
    assert len(plain.letters) == 1


def test_a_commit_has_the_same_bytes_wherever_its_agents_stand(kernels: Kernels) -> None:
    """A replay folds from the first event on, a worker from what its predecessor has stored: the
    rows of their tables differ, and the sums of their commits must not."""
    deltas = []
    for reloaded in (False, True):
        twins = Twins(FLEET, kernels)
        twins.inbox.put([(Drone, f"d-{n}", Tick()) for n in range(40)], 10.0)
        twins.step(1)
        if reloaded:
            twins.compiled.reload(twins.kernels, compacted=True)
        twins.inbox.put([(Drone, f"d-{n}", Tick()) for n in range(39, -1, -1)], 11.0)
        twins.step(1)
        deltas.append(twins.compiled.commits[-1].delta)
    assert deltas[0] == deltas[1]


def test_a_block_has_the_same_bytes_however_many_rows_are_taken_at_once(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where some have a timer and others have cancelled it."""
    deltas = []
    for size in (storing._BYTES_AT_ONCE, 1_000):  # a few rows
        monkeypatch.setattr(storing, "_BYTES_AT_ONCE", size)
        twins = Twins(FLEET, kernels)
        events = [Do(5), Do(2), Tick(), Do(9, 1.0, 4)]
        twins.inbox.put([(Drone, f"d-{n}", events[n % 4]) for n in range(40)], 10.0)
        twins.inbox.put([(Drone, f"d-{n}", events[n % 3]) for n in range(40)], 11.0)
        twins.step(2)
        found = twins.compiled.compacted()
        assert all(isinstance(item, Block) for item in found)
        deltas.append((twins.compiled.commits[-1].delta, found))
        twins.compiled.reload(twins.kernels, compacted=True)
        assert twins.compiled.states() == twins.plain.states()
    assert deltas[0] == deltas[1]


def test_a_compaction_has_agents_that_joined_since_the_one_before(twins: Twins) -> None:
    for at in range(3):
        twins.inbox.put([(Drone, f"d-{at}-{n}", Tick()) for n in range(50)], 10.0 + at)
        twins.step(1)
        blocks = [item for item in twins.compiled.compacted() if isinstance(item, Block)]
        assert sum(block.count for block in blocks) == 50 * (at + 1)


def test_more_agents_than_a_cache_holds(twins: Twins) -> None:
    """The kernel looks ahead then; a number of events that no step of it divides."""
    keys = [f"d-{n}" for n in range(GLANCE_ROWS_MIN + 3)]
    for at, some in enumerate([keys, keys[:35], keys[-35:]]):
        twins.put_columns(Drone, some, [Tick()] * len(some), 10.0 + at)
        twins.step(1)
    assert twins.compiled.states() == twins.plain.states()


def test_other_states_make_another_sum(kernels: Kernels) -> None:
    """Also where the bytes are as many: a replay compares these sums."""
    sums = set()
    for seconds in (5.0, 6.0, 7.0):
        twins = Twins(FLEET, kernels)
        twins.inbox.put([(Drone, f"d-{n}", Do(0, seconds, n)) for n in range(3)], 10.0)
        twins.step(1)
        commit = twins.compiled.commits[-1]
        assert commit.note is not None
        sums.add((commit.note.sum, len(commit.delta)))
    assert len(sums) == 3
    assert len({size for _, size in sums}) == 1


def test_nothing_is_stored_of_a_timer_that_is_not_set(kernels: Kernels) -> None:
    """One process still has what a cancelled timer was, its successor never knew."""
    deltas = []
    for reloaded in (False, True):
        twins = Twins(FLEET, kernels)
        for at, what in enumerate((2, 0, 5)):  # two timers, and both cancelled
            twins.inbox.put([(Drone, "d-1", Do(what, 5.0, 7))], 10.0 + at)
        twins.inbox.command(Drone, "d-1", ["pause", "why"], 13.0)
        twins.step(4)
        if reloaded:
            twins.compiled.reload(twins.kernels, compacted=False)
        twins.inbox.command(Drone, "d-1", ["resume"], 14.0)
        twins.inbox.put([(Drone, f"d-{n}", Tick()) for n in (1, 2)], 15.0)
        twins.step(2)
        deltas.append(twins.compiled.commits[-1].delta)
    assert deltas[0] == deltas[1]


def test_nothing_is_stored_of_the_event_a_timer_had_before(kernels: Kernels) -> None:
    """The watchdog has events of two classes, and each its own place in a row."""
    deltas = []
    for reloaded in (False, True):
        twins = Twins(FLEET, kernels)
        for at, what in enumerate((0, 6)):
            twins.inbox.put([(Drone, "d-1", Do(what, 50.0, 7))], 10.0 + at)
        twins.inbox.command(Drone, "d-1", ["pause", "why"], 13.0)
        twins.step(3)
        if reloaded:
            twins.compiled.reload(twins.kernels, compacted=False)
        twins.inbox.command(Drone, "d-1", ["resume"], 14.0)
        twins.inbox.put([(Drone, f"d-{n}", Tick()) for n in (1, 2)], 15.0)
        twins.step(2)
        deltas.append(twins.compiled.commits[-1].delta)
    assert deltas[0] == deltas[1]


def test_timers_are_stored_in_one_order(twins: Twins) -> None:
    """The watchdog is set last. It has a slot, and the one without a name has none."""
    twins.inbox.put([(Drone, "d-1", Do(1, 5.0)), (Drone, "d-1", Do(0, 5.0))], 10.0)
    twins.step(1)
    one, other = (twin.commits[-1].note for twin in (twins.plain, twins.compiled))
    assert one == other


def test_an_event_that_may_not_run_is_not_run_by_a_replay(twins: Twins) -> None:
    twins.inbox.put([(Drone, "d-1", Tick()), (Drone, "d-1", Tick())], 10.0)
    made = twins.step(1, alone=True, condemned="it ended its worker")
    assert len(made.letters) == 1
    first = twins.inbox.read(twins.codebook)[0].part(0, 1)
    again = twins.compiled.scripted().repeat([first], [], "it ended its worker")
    twins.compare(made, again)


def test_many_timers_that_were_put_off_fire_before_a_late_frame(twins: Twins) -> None:
    """The agenda has them at 40, they are due at 60, and the next frame came at 100."""
    keys = [f"d-{n}" for n in range(70)]  # more than a heap takes
    for stamp, seconds in ((10.0, 30.0), (20.0, 40.0), (100.0, 40.0)):
        twins.inbox.put([(Drone, key, Do(0, seconds)) for key in keys], stamp)
    twins.step(2)
    twins.step(1)
    assert len(twins.plain.script()) == len(twins.compiled.script()) == 70


def test_a_timer_that_was_left_over_does_not_fire_early(twins: Twins) -> None:
    """Two are due at 15. One fires, then the clock is set back."""
    twins.inbox.put([(Drone, f"d-{n}", Do(0, 5.0)) for n in (1, 2)], 10.0)
    twins.step(1)
    twins.step(0, 20.0, alone=True)
    twins.inbox.put([(Drone, "d-3", Tick())], 12.0)
    assert twins.step(1, alone=True).journalled is None


def test_an_agent_that_took_no_event_keeps_what_is_stored(twins: Twins) -> None:
    """As a release with other defaults left it, when it was paused and let go."""
    book = twins.codebook
    stored = Record("Drone", "d-1", 0, book.id_of(Drone), book.pack_one(Drone(seen=7)), b"", 5.0)
    for twin, own in ((twins.plain, {}), (twins.compiled, twins.kernels)):
        twin.items = [stored]
        twin.reload(own, compacted=False)
    twins.inbox.put([(Drone, "d-1", Do(12))], 10.0, asks=True)
    twins.step(1)
    assert twins.compiled.states() == twins.plain.states()


def test_rounding_just_above_minus_a_half(twins: Twins) -> None:
    twins.inbox.put([(Meter, "m-1", Calc(Op.ROUND_TO, b=1, x=-0.049999999999999996))], 10.0)
    twins.step(1)


@entry
def turns(first: int, last: int, by: int) -> int:
    return int(steps(first, last, by))


@pytest.mark.parametrize("by", [3 * 10**18, -3 * 10**18])
def test_a_range_of_huge_steps(by: int) -> None:
    first = -4 * 10**18 if by > 0 else 4 * 10**18
    assert turns(first, -first, by) == len(range(first, -first, by)) == 3
