"""A client process: asks, sends and reads, and writes down each call before and after it.

python -m tests.linearizability.client URL NAME SEED START FOLDER

It goes on until there is a file FOLDER/stop. One that was killed and starts again first resends
what it had sent under a number and has no answer for; everything else it left open stays unknown.
Every PERIOD_SECONDS after START all clients move on to fresh keys, so that no history of a key
grows too long to be checked.
"""

import os
import random
import sys
import time
from contextlib import suppress
from pathlib import Path

from holdfast import Event, Live, Receipt, TryAgain
from tests.linearizability.record import TAIL_BYTES, Begun, Ended, Recorder, read
from tests.linearizability.registers import (
    Add,
    Append,
    Counter,
    Look,
    Register,
    Sequence,
    Swap,
    Write,
    fleet,
)

PERIOD_SECONDS = 15.0
KEYS = ["Register/a", "Register/b", "Counter/c", "Sequence/d", "Sequence/e"]
AGENTS = {"Register": Register, "Counter": Counter, "Sequence": Sequence}
EVENTS = {"Look": Look, "Write": Write, "Swap": Swap, "Add": Add, "Append": Append}
TURNS = {"ask": 8, "look": 2, "send": 2, "numbered": 3, "state": 4, "after": 3, "peer": 3}
PATIENT_SECONDS = 20.0
HASTY_SECONDS = (0.001, 0.003, 0.01, 0.1)  # some asks do not wait for their answer
PAUSE_SECONDS_MAX = 0.01


class Client:
    def __init__(self, live: Live, name: str, seed: int, start: int, folder: Path) -> None:
        self.live = live
        self.name = name
        self.start = start
        self.folder = folder
        self.recorder = Recorder(folder / f"{name}.history")
        self.life = f"{name}/{self.recorder.count}"
        self.chance = random.Random(f"{seed} {self.life}")
        self.versions: dict[str, int] = {}
        self.receipts: dict[str, tuple[str, Receipt]] = {}

    def run(self) -> None:
        for begun in self.recorder.unfinished:
            if begun.seq is not None:
                self._send_numbered(begun)
        while not (self.folder / "stop").exists():
            getattr(self, self.chance.choices(list(TURNS), list(TURNS.values()))[0])(self._key())
            time.sleep(self.chance.uniform(0.0, PAUSE_SECONDS_MAX))

    def _key(self) -> str:
        period = int((time.monotonic_ns() - self.start) / 1e9 / PERIOD_SECONDS)
        return f"{self.chance.choice(KEYS)}.{period}"

    def _begin(self, key: str, kind: str, call: list[object], **more: object) -> Begun:
        name = f"{self.name}.{self.recorder.count}"
        return self.recorder.begin(
            name=name, client=self.life, key=key, kind=kind, call=call, **more
        )

    def _update(self, key: str) -> list[object]:
        """A call no other client makes: what became of it can be told from any other."""
        fresh = f"{self.name}.{self.recorder.count}"
        agent = key.partition("/")[0]
        if agent == "Counter":
            return ["Add", self.recorder.count * 8 + int(self.name[1:])]
        if agent == "Sequence":
            return ["Append", fresh]
        if self.chance.random() < 0.5:
            return ["Swap", self.versions.get(key, 0), fresh]
        return ["Write", fresh]

    # Calls that go through the inbox.

    def ask(self, key: str) -> None:
        self._ask(key, self._update(key))

    def look(self, key: str) -> None:
        self._ask(key, ["Look"])

    def _ask(self, key: str, call: list[object]) -> None:
        hasty = self.chance.random() < 0.2
        timeout = self.chance.choice(HASTY_SECONDS) if hasty else PATIENT_SECONDS
        begun = self._begin(key, "ask", call)
        try:
            reply = self.live.ask(*target(key), event_of(call), timeout=timeout)
        except TryAgain as error:
            self.recorder.end(begun, error=f"{type(error).__name__}: {error}")
        else:
            self._told(begun, reply)

    def send(self, key: str) -> None:
        """Unnumbered: the very same event sent again is a retry, from this handle only."""
        begun = self._begin(key, "send", self._update(key))
        event = event_of(begun.call)
        for attempt in range(3):
            try:
                receipt = self.live.send(*target(key), event, timeout=0.05 + attempt)
            except TryAgain as error:
                failure = f"{type(error).__name__}: {error}"
            else:
                self._sent(begun, receipt)
                return
        self.recorder.end(begun, error=failure)

    def numbered(self, key: str) -> None:
        call = self._update(key)
        self._send_numbered(self._begin(key, "send", call, seq=self.recorder.count + 1))

    def _send_numbered(self, begun: Begun) -> None:
        """Until it is acknowledged, and sometimes once more, which must do nothing."""
        event, seq = event_of(begun.call), begun.seq
        while True:
            try:
                receipt = self.live.send(*target(begun.key), event, source=self.name, seq=seq)
                break
            except TryAgain as refusal:
                print(f"{begun.name}: {refusal}", flush=True)
        self._sent(begun, receipt)
        if self.chance.random() < 0.3:
            with suppress(TryAgain):
                self.live.send(*target(begun.key), event, source=self.name, seq=seq)

    def _sent(self, begun: Begun, receipt: Receipt) -> None:
        self.recorder.end(begun, receipt=[list(pair) for pair in receipt.positions])
        self.receipts[begun.key] = begun.name, receipt
        if self.chance.random() < 0.3:
            self.after(begun.key)

    # Calls that read.

    def state(self, key: str) -> None:
        self._read(key, None)

    def after(self, key: str) -> None:
        """With the receipt of this client's last send to the key."""
        self._read(key, self.receipts.get(key))

    def peer(self, key: str) -> None:
        """With the receipt of somebody else, who has written it down."""
        path = self.chance.choice(sorted(self.folder.glob("*.history")))
        found = None
        for line in read(path, TAIL_BYTES):
            if isinstance(line, Ended) and line.receipt and line.key == key:
                positions = tuple((partition, at) for partition, at in line.receipt)
                found = line.name, Receipt(positions)
        self._read(key, found)

    def _read(self, key: str, after: tuple[str, Receipt] | None) -> None:
        names = [] if after is None else [after[0]]
        begun = self._begin(key, "state", ["Look"], after=names)
        agent, name = target(key)
        receipt = None if after is None else after[1]
        try:
            state = self.live.state(agent, name, after=receipt, timeout=PATIENT_SECONDS)
        except TryAgain as error:
            self.recorder.end(begun, error=f"{type(error).__name__}: {error}")
        else:
            self._told(begun, agent() if state is None else state)

    def _told(self, begun: Begun, told: object) -> None:
        """A reply or a state; one that nobody has touched yet is as its class begins."""
        value, version = getattr(told, "value"), getattr(told, "version")  # noqa: B009
        self.recorder.end(begun, result=[value, version, getattr(told, "done", True)])
        self.versions[begun.key] = version


def target(key: str) -> tuple[type[Register | Counter | Sequence], str]:
    agent, _, name = key.partition("/")
    return AGENTS[agent], name


def event_of(call: list[object]) -> Event:
    return EVENTS[str(call[0])](*call[1:])


def main(url: str, name: str, seed: str, start: str, folder: str) -> None:
    if os.environ.get("SABOTAGE"):
        from tests.linearizability import sabotage  # noqa: F401
    with fleet.connect(url) as live:
        Client(live, name, int(seed), int(start), Path(folder)).run()


if __name__ == "__main__":
    main(*sys.argv[1:6])
