"""Histories to try the checker on: models, a small pretended server, and a check by brute force.

The brute force knows nothing of the checker. It takes the definition word by word: it tries every
order of the asks and sends and, for every `state`, every prefix of that order.
"""

from collections.abc import Sequence
from itertools import combinations, permutations, product
from typing import Literal

from hypothesis import strategies as st

from holdfast.testing.linearizability import Model, Operation, Reads

Kind = Literal["ask", "send", "state"]
Items = tuple[object, ...]
Histories = st.SearchStrategy[list[Operation]]


class Register(Model[object]):
    """`set` is blind and tells nothing, so that many orders look alike."""

    initial: object = 0

    def apply(self, state: object, call: object) -> tuple[object, object]:
        match call:
            case ("get",):
                return state, state
            case ("set", value):
                return value, "ok"
            case ("swap", old, new):
                return (new, True) if state == old else (state, False)
        raise AssertionError(call)


class Log(Model[Items]):
    """Tells everything, and knows when a result cannot come any more."""

    initial: Items = ()

    def apply(self, state: Items, call: object) -> tuple[Items, object]:
        match call:
            case ("get",):
                return state, state
            case ("append", item):
                return (*state, item), (*state, item)
        raise AssertionError(call)

    def missed(self, state: Items, call: object, result: object) -> bool:
        return not isinstance(result, tuple) or result[: len(state)] != state


def explained_by_brute_force(
    history: Sequence[Operation], model: Model[object] | Model[Items], reads: Reads
) -> bool:
    updates = [o for o in history if o.kind != "state"]
    certain = [o for o in updates if o.returned is not None]
    unknown = [o for o in updates if o.returned is None]
    seen = [o for o in history if o.kind == "state" and o.returned is not None]
    return any(
        _accepted(order, seen, model, reads)
        for count in range(len(unknown) + 1)
        for chosen in combinations(unknown, count)
        for order in permutations([*certain, *chosen])
    )


def _accepted(
    order: Sequence[Operation], seen: Sequence[Operation], model: Model, reads: Reads
) -> bool:
    states = [model.initial]
    for place, operation in enumerate(order):
        if any(_ended_before(later, operation) for later in order[place:]):
            return False
        state, result = model.apply(states[-1], operation.call)
        answered = operation.kind == "ask" and operation.returned is not None
        if answered and result != operation.result:
            return False
        states.append(state)
    prefixes = [
        [
            length
            for length in range(len(order) + 1)
            if model.apply(states[length], read.call)[1] == read.result
            and _allowed(order, length, read, reads)
        ]
        for read in seen
    ]
    return any(_never_back(seen, lengths, reads) for lengths in product(*prefixes))


def _ended_before(first: Operation, second: Operation) -> bool:
    return first.returned is not None and first.returned < second.invoked


def _allowed(order: Sequence[Operation], length: int, read: Operation, reads: Reads) -> bool:
    for place, operation in enumerate(order):
        included = place < length
        if included and _ended_before(read, operation):
            return False
        if not included and operation.name in read.after:
            return False
        counts = reads == "committed" or operation.client == read.client
        answered = operation.kind == "ask" and _ended_before(operation, read)
        if answered and counts and not included:
            return False
    return True


def _never_back(seen: Sequence[Operation], lengths: Sequence[int], reads: Reads) -> bool:
    return not any(
        lengths[i] > lengths[j]
        for i, first in enumerate(seen)
        for j, second in enumerate(seen)
        if _ended_before(first, second) and (reads == "committed" or first.client == second.client)
    )


class Server:
    """Clients, an inbox and a fold: each step of a script moves one of them. One step, one tick."""

    def __init__(self, model: Model, calls: Sequence[object]) -> None:
        self.model = model
        self.calls = calls
        self.now = 0
        self.inbox: list[str] = []
        self.states = [model.initial]  # after 0, 1, … folded
        self.results: dict[str, object] = {}
        self.open: dict[int, tuple[Operation, int]] = {}  # per client, with steps it has taken
        self.lives: dict[int, int] = {}
        self.acknowledged: list[str] = []
        self.history: dict[str, Operation] = {}

    def fold(self) -> None:
        if len(self.states) <= len(self.inbox):
            name = self.inbox[len(self.states) - 1]
            call = self.history[name].call
            state, self.results[name] = self.model.apply(self.states[-1], call)
            self.states.append(state)

    def step(self, client: int, choice: int) -> None:
        """1 call, 2 append or read, 3 return if it may; now and then the client dies instead."""
        self.now += 1
        if client not in self.open:
            self._call(client, choice)
        elif choice == 0:
            del self.open[client]  # and its successor is another client
            self.lives[client] = self.lives.get(client, 0) + 1
        else:
            self._go_on(client)

    def _call(self, client: int, choice: int) -> None:
        kinds: tuple[Kind, ...] = ("ask", "send", "state")
        kind = kinds[choice % 3]
        after: tuple[str, ...] = ()
        if kind == "state" and choice % 2 and self.acknowledged:
            after = (self.acknowledged[choice % len(self.acknowledged)],)
        call = ("get",) if kind == "state" else self.calls[choice // 3 % len(self.calls)]
        if call == ("append",):
            call = ("append", self.now)
        life = f"client {client}.{self.lives.get(client, 0)}"
        operation = Operation(f"o{self.now}", life, kind, call, self.now, after=after)
        self.history[operation.name] = operation
        self.open[client] = operation, 0

    def _go_on(self, client: int) -> None:
        operation, steps = self.open[client]
        name = operation.name
        if steps == 0 and operation.kind == "state":
            needed = [self.inbox.index(each) + 1 for each in operation.after]
            if len(self.states) - 1 < max(needed, default=0):
                return  # it waits for the fold
            self.results[name] = self.model.apply(self.states[-1], operation.call)[1]
        elif steps == 0:
            self.inbox.append(name)
        elif operation.kind != "ask" or name in self.results:
            result = None if operation.kind == "send" else self.results[name]
            self._return(client, operation, result)
            return
        self.open[client] = operation, 1

    def _return(self, client: int, operation: Operation, result: object) -> None:
        self.history[operation.name] = Operation(
            operation.name,
            operation.client,
            operation.kind,
            operation.call,
            operation.invoked,
            self.now,
            result,
            operation.after,
        )
        if operation.kind != "state":
            self.acknowledged.append(operation.name)
        del self.open[client]


REGISTER_CALLS = [("set", 1), ("get",), ("set", 2), ("swap", 0, 1), ("swap", 1, 2), ("get",)]
LOG_CALLS = [("append",), ("get",), ("append",)]


STEPS = st.tuples(st.integers(-2, 3), st.integers(0, 17))


def served(model: Model, calls: Sequence[object], steps: int = 60) -> Histories:
    """What clients of a server saw that does everything right."""

    def play(script: list[tuple[int, int]]) -> list[Operation]:
        server = Server(model, calls)
        for client, choice in script:
            if client < 0:
                server.fold()
            else:
                server.step(client, choice)
        return list(server.history.values())

    return st.lists(STEPS, max_size=steps).map(play)


SKETCHES = st.tuples(
    st.sampled_from(["ask", "ask", "send", "state", "state"]),
    st.sampled_from(["a", "b"]),
    st.integers(0, 8),  # called
    st.integers(-3, 8),  # took; below 0: never returned
    st.integers(0, 11),  # which call
    st.integers(0, 11),  # which result
    st.integers(0, 5),  # after which
)


def invented(values: Sequence[object], calls: Sequence[object]) -> Histories:
    """Small histories out of nothing: some right, most wrong. Times have ties."""

    def make(sketches: list[tuple[Kind, str, int, int, int, int, int]]) -> list[Operation]:
        history: list[Operation] = []
        for kind, client, invoked, took, call_choice, result_choice, after_choice in sketches:
            call = ("get",) if kind == "state" else calls[call_choice % len(calls)]
            receipts = [
                o.name
                for o in history
                if o.kind != "state" and o.returned is not None and o.returned <= invoked
            ]
            after = receipts[after_choice : after_choice + 1] if kind == "state" else []
            history.append(
                Operation(
                    f"o{len(history)}",
                    client,
                    kind,
                    call,
                    invoked,
                    None if took < 0 else invoked + took,
                    _told(call, values, result_choice),
                    tuple(after),
                )
            )
        return history

    return st.lists(SKETCHES, min_size=1, max_size=6).map(make)


def _told(call: object, values: Sequence[object], choice: int) -> object:
    match call:
        case ("set", _):
            return "ok"
        case ("swap", _, _):
            return choice % 2 == 0
    return values[choice % len(values)]
