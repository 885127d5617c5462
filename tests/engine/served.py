"""A partition that is served: with something of everything in it, and views that go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from holdfast.engine.kafka.asking import RemoteView
from holdfast.engine.kafka.lines import Connections
from holdfast.engine.kafka.serving import Owned, ViewServer
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import View
from holdfast.testing.conformance.commits import full_commit
from holdfast.testing.conformance.workbench import FLEET, Owner, append, messages, parcel, record


class Fleet:
    """A partition with something of everything, its owner, and readers elsewhere."""

    def __init__(self) -> None:
        self.engine = MemoryEngine(FLEET, 1)
        append(self.engine, parcel(["a", "b"], source="s", seqs=range(1, 3)))
        append(self.engine, messages("1-abc", 1, 2))
        append(self.engine, parcel(["e"]))
        self.owner = Owner.of(self.engine)
        for number in (1, 2, 3):
            states = [record("d-1", f"one {number}", number), record(f"d-{number}x", "new")]
            self.owner.commit(states, events=1, **full_commit(self.owner))
        self.owner.commit([record("t-1", "tram", agent="Tram")], redriven=[1])
        self.view: View = self.engine.view(0)
        self.epoch = self.owner.claim.epoch
        self.owned = True
        self.connections = Connections()
        self.servers: list[ViewServer] = []

    def look(self, partition: int) -> Owned | None:
        return Owned(self.epoch, self.view) if self.owned and partition == 0 else None

    def serve(self, **settings: Any) -> ViewServer:
        self.servers.append(ViewServer(self.look, **settings))
        return self.servers[-1]

    def read(self, server: ViewServer, timeout: float = 10.0, least_epoch: int = 0) -> RemoteView:
        return RemoteView(
            server.address, 0, timeout, least_epoch=least_epoch, connections=self.connections
        )

    def close(self) -> None:
        self.connections.close()
        for server in self.servers:
            server.close()
        self.engine.close()


class Instead:
    """A view of which some methods are others."""

    def __init__(self, view: View, **methods: Callable[..., object]) -> None:
        self._view = view
        self._methods = methods

    def __getattr__(self, name: str) -> object:
        return self._methods.get(name) or getattr(self._view, name)


def instead(view: View, **methods: Callable[..., object]) -> View:
    return cast(View, Instead(view, **methods))
