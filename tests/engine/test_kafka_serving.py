"""Goal: whoever asks the owner of a partition gets what the owner sees, or is told to look
elsewhere: everything that a view can be asked, errors, and owners that are none any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import cast, get_args, get_origin, get_type_hints

import pytest

from holdfast.engine import asked, questions
from holdfast.engine.kafka.asking import NotServed, RemoteView, Standing
from holdfast.engine.port import View
from holdfast.errors import DamagedData, HoldfastError, TimedOut, TryAgain
from holdfast.stepping.commit import CommitNote, Issued, Record
from holdfast.stepping.inputs import StoredFrame
from holdfast.testing.conformance.commits import framed
from holdfast.testing.conformance.workbench import (
    append,
    parcel,
    record,
    together,
)
from tests.engine.served import Fleet, instead

METHODS = {name: each for name, each in vars(View).items() if not name.startswith("_")}
# What is asked of each; those without a row have no arguments.
ARGUMENTS: dict[str, list[tuple[object, ...]]] = {
    "record": [("Drone", "d-1"), ("Drone", "nobody"), ("Tram", "d-1")],
    "records": [(), ("Drone",), ("Tram",), (None,)],
    "changes": [(-1,), (0,), (2,), (4,)],
    "letter": [(1,), (2,), (99,)],
    "answer": [(3,), (4,)],
    "position_of": [(0,), (4,)],
    "fates_of": [([],), ([f"fleet/Drone/d-1/{n}/0" for n in range(500)],)],
    **{
        name: [(0, 100), (1, 1), (2, 2), (0, 0), (99, 5), (0, 2**62)]
        for name in ("frames", "journal", "commits", "actions", "calls")
    },
}


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    fleet = Fleet()
    yield fleet
    fleet.close()


def whole(answer: object) -> object:
    return list(answer) if isinstance(answer, Iterator) else answer


# What is asked and answered.


@pytest.mark.parametrize("method", METHODS)
def test_every_method_answers_as_the_owner_sees_it(fleet: Fleet, method: str) -> None:
    remote = fleet.read(fleet.serve())
    found_any = False
    for arguments in ARGUMENTS.get(method, [()]):
        local = whole(getattr(fleet.view, method)(*arguments))
        found = whole(getattr(remote, method)(*arguments))
        assert found == local
        assert type(found) is type(local)
        if isinstance(local, list) and local:
            assert [type(each) for each in cast(list[object], found)] == [type(x) for x in local]
        found_any = found_any or bool(local) or local == 0
    assert found_any, "nothing was compared"


@pytest.mark.parametrize("method", METHODS)
def test_the_table_says_what_the_port_says(method: str) -> None:
    """A method that the port gets has to be answered too, and asked for."""
    hints = get_type_hints(METHODS[method])
    answer = hints.pop("return")
    if get_origin(answer) is Iterator:
        answer = list[get_args(answer)[0]]  # type: ignore[misc]
    question = questions.QUESTIONS[method]
    assert get_args(question.arguments) == tuple(hints.values())
    assert question.answer == answer
    assert method in vars(asked.AskedView)


def test_the_table_has_nothing_else() -> None:
    assert questions.QUESTIONS.keys() == METHODS.keys()


def test_a_remote_view_is_a_view(fleet: Fleet) -> None:
    view: View = fleet.read(fleet.serve())
    assert view.head() == fleet.owner.head


def many_rows(fleet: Fleet, count: int) -> None:
    for number in range(count):
        head = fleet.owner.head
        fleet.owner.commit(
            issued=Issued(head.actions_next, 2, 5.0, framed(f"action {number}")),
            head={"actions_next": head.actions_next + 2},
        )
        append(fleet.engine, parcel([f"{number}", "twice"]))


@pytest.mark.parametrize("first", [0, 1, 5, 300, 401, 402, 10_000])
@pytest.mark.parametrize("most", [1, 7, 64, 65, 128, 200, 2**62])
def test_pages_are_put_together_without_a_seam(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, first: int, most: int
) -> None:
    for method in ("frames", "commits"):
        paging = questions.QUESTIONS[method].paging
        assert paging is not None
        monkeypatch.setattr(questions.QUESTIONS[method], "paging", paging._replace(most=9))
    monkeypatch.setattr(questions, "CHUNK_BYTES", 300)
    many_rows(fleet, 200)
    remote = fleet.read(fleet.serve())
    for method in ("frames", "commits", "actions", "journal", "calls"):
        assert getattr(remote, method)(first, most) == getattr(fleet.view, method)(first, most)


def test_the_owner_reads_a_long_answer_page_by_page(fleet: Fleet) -> None:
    many_rows(fleet, 200)
    asked: list[int] = []

    def actions(first: int, most: int) -> list[Issued]:
        asked.append(most)
        return local.actions(first, most)

    local, fleet.view = fleet.view, instead(fleet.view, actions=actions)
    assert len(fleet.read(fleet.serve()).actions(0, 10_000)) == 203
    assert asked == [64, 64, 64, 64]


def test_what_retention_takes_between_two_pages_leaves_no_gap_in_an_answer(fleet: Fleet) -> None:
    def commits(first: int, most: int) -> list[CommitNote]:
        start = first if first < 4096 else 5000
        return [CommitNote(n, 0, 0, 0.0, 0) for n in range(max(1, start), 10_000)][:most]

    fleet.view = instead(fleet.view, commits=commits)
    found = fleet.read(fleet.serve()).commits(1, 9_000)
    assert [note.number for note in found] == list(range(1, 4097))


def test_frames_end_somewhere(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the port allows it: never with none, so that whoever goes on comes to the end."""
    monkeypatch.setattr(questions, "CHUNK_BYTES", 1)
    monkeypatch.setattr(questions, "FRAMES_BYTES_MAX", 1)
    remote = fleet.read(fleet.serve())
    found: list[StoredFrame] = []
    while page := remote.frames(found[-1].first + found[-1].count if found else 0, 100):
        assert len(page) == 1
        found += page
    assert found == fleet.view.frames(0, 100)


# Many records.


def test_many_records_come_through_as_of_one_commit(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the owner goes on to commit; and from a file, where they are more than fits."""
    monkeypatch.setattr(asked, "SPOOL_BYTES", 1024 * 1024)

    def states(version: int) -> list[Record]:
        text = f"state {version} " * 5
        return [record(f"k-{n}", text, version, "Lot") for n in range(50_000)]

    fleet.owner.commit(states(1))
    remote = fleet.read(fleet.serve())
    ended = threading.Event()

    def commit_on() -> None:
        for version in range(2, 6):
            fleet.owner.commit(states(version))
        ended.set()

    def read_on() -> None:
        seen = 0
        while not ended.is_set() or seen < 5:
            found = list(remote.records("Lot"))
            assert len({each.key for each in found}) == len(found) == 50_000
            (version,) = {each.version for each in found}
            assert version >= seen
            seen = version

    together(commit_on, read_on, read_on)
    assert list(remote.records()) == list(fleet.view.records())


def test_records_that_nobody_takes_hold_nothing_up(fleet: Fleet) -> None:
    fleet.owner.commit([record(f"k-{n}", "x" * 1000, agent="Lot") for n in range(5_000)])
    remote = fleet.read(fleet.serve(connections_max=1))
    begun = remote.records()
    first = next(begun)
    for _ in range(20):
        assert next(remote.records()) == first
    assert len(list(begun)) == len(list(fleet.view.records())) - 1
    assert next(begun, None) is None


# Errors, and who owns it.


class BesideErrors(TryAgain):
    """Of ours, but unknown to whoever asks."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DamagedData("state.db: gone"), DamagedData),
        (TimedOut("the brokers are away"), TimedOut),
        (BesideErrors("not now"), TryAgain),
    ],
)
def test_errors_of_ours_come_back_as_they_were(
    fleet: Fleet, error: HoldfastError, expected: type[HoldfastError]
) -> None:
    def fail(*arguments: object) -> None:
        raise error

    local, fleet.view = fleet.view, instead(fleet.view, record=fail, letters=fail)
    remote = fleet.read(fleet.serve())
    for ask in (lambda: remote.record("Drone", "d-1"), remote.letters):
        with pytest.raises(expected) as raised:
            ask()
        assert type(raised.value) is expected
        assert str(raised.value) == str(error)
    assert remote.head() == local.head(), "the line goes on"


def test_an_error_behind_the_first_chunks_is_raised(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def records(agent: str | None = None) -> Iterator[Record]:
        yield from local.records(agent)
        raise DamagedData("the rest is gone")

    monkeypatch.setattr(questions, "CHUNK_BYTES", 1)
    local, fleet.view = fleet.view, instead(fleet.view, records=records)
    remote = fleet.read(fleet.serve())
    with pytest.raises(DamagedData, match="the rest is gone"):
        remote.records()
    assert remote.head() == local.head()


def test_any_other_error_is_the_owners_own(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ZeroDivisionError("a bug")

    fleet.view = instead(fleet.view, marks=fail)
    with pytest.raises(NotServed, match="marks: ZeroDivisionError: a bug"):
        fleet.read(fleet.serve()).marks()
    assert "partition 0, marks" in caplog.text


def test_what_is_not_owned_is_not_served(fleet: Fleet) -> None:
    server = fleet.serve()
    remote = fleet.read(server)
    assert remote.head() == fleet.owner.head
    fleet.owned = False
    with pytest.raises(NotServed, match=r"partition 0 at 127\.0\.0\.1:.*does not own it"):
        remote.head()
    fleet.owned = True
    assert remote.head() == fleet.owner.head
    with pytest.raises(NotServed):
        RemoteView(server.address, 1, connections=fleet.connections).head()


@pytest.mark.parametrize("claimed_anew", [True, False])
def test_an_answer_from_before_the_partition_was_lost_is_not_given(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, claimed_anew: bool
) -> None:
    """Nor is an error: of a view that was closed, say."""

    def lose(*arguments: object) -> Iterator[Record]:
        yield from local.records()
        fleet.owned, fleet.epoch = claimed_anew, fleet.epoch + 1
        raise DamagedData("closed")

    monkeypatch.setattr(questions, "CHUNK_BYTES", 1)
    local, fleet.view = fleet.view, instead(fleet.view, records=lose)
    with pytest.raises(NotServed, match="does not own it"):
        fleet.read(fleet.serve()).records()


def test_an_owner_that_was_superseded_is_noticed(fleet: Fleet) -> None:
    server = fleet.serve()
    remote = fleet.read(server, least_epoch=fleet.epoch)
    assert remote.standing == Standing(fleet.epoch, 0)
    remote.marks()
    assert remote.standing == Standing(fleet.epoch, fleet.owner.head.commits)
    with pytest.raises(NotServed, match="there is one with"):
        fleet.read(server, least_epoch=fleet.epoch + 1).head()
    fleet.epoch += 1
    remote.head()
    fleet.epoch -= 1
    with pytest.raises(NotServed, match="there is one with"):
        remote.head()


def test_a_view_never_goes_back(fleet: Fleet) -> None:
    remote = fleet.read(fleet.serve())
    head = remote.head()
    fleet.view = instead(fleet.view, head=lambda: head._replace(commits=head.commits - 1))
    with pytest.raises(NotServed, match=f"of {head.commits} commits it has {head.commits - 1}"):
        remote.head()
