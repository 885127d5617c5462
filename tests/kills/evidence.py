"""What a fleet holds after all the killing, by the public API, put beside what the oracle says."""

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast import Agent, Live
from tests.kills import swarm
from tests.kills.oracle import Oracle, Output, Plain, differences
from tests.kills.script import Row

CLASSES: dict[str, type[Agent]] = {
    "Drone": swarm.Drone,
    "Hub": swarm.Hub,
    "Meter": swarm.Meter,
    "Valve": swarm.Valve,
}


def plain(thing: object) -> Plain:
    names: tuple[str, ...] = thing.__struct_fields__  # type: ignore[attr-defined]
    values = {name: getattr(thing, name) for name in names}
    return {n: v.value if isinstance(v, swarm.Mode) else v for n, v in values.items()}


def output(agent: str, key: str, thing: object) -> Output:
    return agent, key, type(thing).__name__, tuple(plain(thing).values())


def wrong_states(live: Live, oracle: Oracle, leave_out: Sequence[str] = ()) -> list[str]:
    found: list[str] = []
    for name, expected in oracle.states().items():
        if name in leave_out:
            continue
        actual = {key: plain(state) for key, state in live.states(CLASSES[name])}
        for key in sorted(expected.keys() | actual.keys()):
            wrong = differences(expected.get(key, {}), actual.get(key, {}))
            found += [f"{name}/{key}.{line}" for line in wrong]
    return found


def wrong_actions(live: Live, oracle: Oracle) -> list[str]:
    """Contents as expected, ids unique, and where every event emits once, ids without a gap."""
    actions = live.actions(most=10_000_000)
    found = _wrong_counts(
        "action", oracle.actions, [output(a.agent, a.key, a.action) for a in actions]
    )
    if [a.id for a in actions] != _ids_by_pages(live):
        found.append("paging through the actions gives others than reading them at once")
    ids = Counter(a.id for a in actions)
    found += [f"action id {name} occurs {count} times" for name, count in ids.items() if count > 1]
    for key, numbers in oracle.beats.items():
        issued = [(a.id, a.action) for a in actions if a.key == key]
        expected = [
            (f"swarm/Meter/{key}/{version}/0", swarm.Beaten(number))
            for version, number in enumerate(numbers, start=1)
        ]
        if issued != expected:
            found.append(f"the actions of {key} are not its beats in order: {issued[:5]} …")
    found += _disordered(live)
    return found


def _ids_by_pages(live: Live) -> list[str]:
    """What a subscriber with a cursor gets, put into the order of the partitions again."""
    found: list[str] = []
    cursor: str | None = None
    while page := live.actions(after=cursor, most=300):
        found += [action.id for action in page]
        cursor = page.cursor
    return found


def _disordered(live: Live) -> list[str]:
    """Actions of one agent come in the order of its events, those of one event numbered from 0."""
    found: list[str] = []
    last: dict[str, tuple[int, int]] = {}
    for action in live.actions(most=10_000_000):
        agent, version, index = _parts(action.id)
        before = last.get(agent)
        follows = index == 0 if before is None or before[0] != version else index == before[1] + 1
        if (before is not None and before[0] > version) or not follows:
            found.append(f"action {action.id} comes after {before}")
        last[agent] = (version, index)
    return found


def _parts(action_id: str) -> tuple[str, int, int]:
    agent, version, index = action_id.rsplit("/", 2)
    return agent, int(version), int(index)


def wrong_letters(live: Live, oracle: Oracle) -> list[str]:
    letters = live.dead_letters()
    return _wrong_counts(
        "dead letter", oracle.letters, [output(x.agent, x.key, x.event) for x in letters]
    )


def _wrong_counts(what: str, expected: Counter[Output], found: Sequence[Output]) -> list[str]:
    actual = Counter(found)
    return [
        f"{what} {one}: expected {expected[one]}, found {actual[one]}"
        for one in sorted(expected.keys() | actual.keys(), key=str)
        if expected[one] != actual[one]
    ]


def wrong_histories(
    live: Live, sent: Mapping[str, Sequence[Row]], keys: Sequence[str]
) -> list[str]:
    """The log itself: every row once and in the order of its source, no timer before its time."""
    found = []
    for key in keys:
        entries = live.history(swarm.Drone, key)
        for source, rows in sent.items():
            expected = [row.number for row in rows if (row.agent, row.key) == ("Drone", key)]
            logged = [e.seq for e in entries if e.source == source]
            if logged != expected:
                found.append(f"the history of {key} from {source} has {logged}, not {expected}")
        rings = [e for e in entries if e.origin == "timer"]
        early = [e for e in rings if isinstance(e.event, swarm.Ring) and e.now < e.event.due]
        found += [f"{key}: a timer fired early: {entry}" for entry in early]
        state = live.state(swarm.Drone, key)
        if state is not None and len(rings) != sum(state.rung.values()):
            found.append(f"{key}: {len(rings)} timers in the history, {state.rung} in the state")
    return found
