"""Conformance: open calls are there from the commit that makes them to the one that closes them."""

from __future__ import annotations

from holdfast.model.keys import Layout
from holdfast.stepping.commit import Call, Head
from holdfast.testing.conformance.commits import call
from holdfast.testing.conformance.promises import promise
from holdfast.testing.conformance.rescales import key_in, owners, rescale
from holdfast.testing.conformance.workbench import Owner, Workbench


def opened(owner: Owner, count: int, key: str = "d-1", now: float = 5.0) -> list[Call]:
    """So many more calls, in one commit."""
    first = owner.head.calls_next
    calls = [call(first + i, key, now) for i in range(count)]
    owner.commit(calls=calls, head={"calls_next": first + count})
    return calls


class CallConformance(Workbench):
    @promise("open, of higher numbers, ascending")
    def test_open_calls_are_read_by_their_numbers(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        calls = [*opened(owner, 3), *opened(owner, 2)]
        view = self.again(engine).view(0)
        assert view.calls(0, 10) == calls
        assert view.calls(2, 2) == calls[2:4]
        assert view.calls(5, 10) == []
        assert view.head().calls_next == 6

    def test_a_closed_call_is_gone_and_its_number_is_not_used_again(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        calls = opened(owner, 3)
        owner.commit(closed=[calls[1].id])
        assert engine.view(0).calls(0, 10) == [calls[0], calls[2]]
        owner.commit(closed=[calls[2].id, calls[0].id])
        assert engine.view(0).calls(0, 10) == []
        again = self.again(engine)
        assert again.view(0).calls(0, 10) == []
        assert again.view(0).head().calls_next == 4
        assert again.load(owner.claim).head.calls_next == 4

    def test_one_commit_closes_older_calls_and_its_own(self) -> None:
        """Its own, where it has folded the reply too: a backlog folded again, say."""
        engine = self.engine()
        owner = Owner.of(engine)
        opened(owner, 1)
        made = [call(2), call(3), call(4)]
        owner.commit(calls=made, closed=[call(3).id, call(1).id], head={"calls_next": 5})
        assert engine.view(0).calls(0, 10) == [call(2), call(4)]

    def test_ten_thousand_calls_are_read_in_pages(self) -> None:
        engine = self.engine()
        owner = Owner.of(engine)
        calls = opened(owner, 10_000)
        found: list[Call] = []
        while page := engine.view(0).calls(found[-1].number if found else 0, 999):
            found += page
        assert found == calls

    def test_open_calls_move_to_the_partition_of_their_agent(self) -> None:
        """Their ids stay; numbers begin anew, in the order of time."""
        self.needs("rescales")
        engine = self.engine(partitions=2)
        both = owners(engine)
        keys = [key_in(slots) for slots in Layout.even(2).partitions]
        late = opened(both[0], 2, keys[0], now=7.0)
        early = opened(both[1], 2, keys[1], now=3.0)
        both[0].commit(closed=[late[0].id])
        (child,) = rescale(engine, both, 1).numbers
        view = self.again(engine).view(child)
        wanted = [early[0], early[1], late[1]]
        assert view.calls(0, 10) == [c._replace(number=i) for i, c in enumerate(wanted, start=1)]
        assert view.head().calls_next == 4
        owner = Owner.of(engine, child)
        owner.commit(closed=[late[1].id])
        opened(owner, 1, keys[0])
        layout = rescale(engine, [owner], 2)
        parts = [engine.view(layout.partition_of(key)) for key in keys]
        assert [[c.key for c in part.calls(0, 10)] for part in parts] == [[keys[0]], [keys[1]] * 2]
        assert [part.head().calls_next for part in parts] == [2, 3]
        assert parts[0].head() != Head()
