"""The load: clients that number what they send, resend some of it on purpose, and read.

A client sends its next event only when the one before is acknowledged, and what was refused or got
no answer again under the same numbers; so what it had acknowledged is 1 to `last`.
`python -m bench.gateway.clients PORT CLIENTS SECONDS PAUSE` prints what became of it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import uvloop

from bench.gateway.following import Follower
from bench.gateway.plan import as_json, events_for, keys_of
from bench.gateway.wire import Answer, Connection, request
from bench.results import percentiles

BATCH = 100
SHARE_OF_BATCHES, SHARE_OF_READS, SHARE_OF_RESENDS = 0.05, 0.15, 0.03
SHARE_OF_SURE_READS = 0.1  # of the reads: with a receipt, so that they see what was sent
RETRY_SECONDS = 0.2
PASSES = (429, 503, 504)
FINDINGS_MAX = 20


@dataclass
class Tally:
    """What all clients together have seen."""

    taken: dict[str, list[float]] = field(default_factory=dict)  # seconds, by kind of request
    statuses: Counter[int] = field(default_factory=Counter)
    broken: int = 0  # connections that ended before the answer
    resent: int = 0
    findings: list[str] = field(default_factory=list)

    def finding(self, text: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(text)


class Client:
    def __init__(self, number: int, port: int, tally: Tally) -> None:
        self.number = number
        self.last = 0  # all up to here are acknowledged
        self._line = Connection(port)
        self._tally = tally
        self._chance = random.Random(number)
        self._receipt = ""
        self._counts = dict.fromkeys(keys_of(number), 0)  # as read

    async def run(self, until: float, pause: float) -> None:
        await asyncio.sleep(pause * self._chance.random())
        while time.perf_counter() < until:
            draw = self._chance.random()
            if draw < SHARE_OF_READS:
                await self._read()
            else:
                await self._send(BATCH if draw < SHARE_OF_READS + SHARE_OF_BATCHES else 1)
            if pause:
                await asyncio.sleep(pause * 2 * self._chance.random())
        self._line.close()

    async def _send(self, count: int) -> None:
        message = request("POST", "/events", as_json(self.number, self.last + 1, count))
        answer, tries = await self._until_answered(message, "batch" if count > 1 else "single")
        told = answer.values()
        if answer.status != 200 or told["events"] != count:
            self._tally.finding(f"client {self.number} after {self.last}: {answer}")
            return
        if tries == 1 and told["repeats"]:
            self._tally.finding(f"client {self.number}: new events are repeats: {told}")
        self.last += count
        self._receipt = str(told["receipt"])
        if self._chance.random() < SHARE_OF_RESENDS:
            answer, _ = await self._until_answered(message, "resend")
            self._tally.resent += count
            if answer.values().get("repeats") != count:
                self._tally.finding(f"client {self.number}: a resend was taken: {answer}")

    async def _read(self) -> None:
        key = self._chance.choice(list(self._counts))
        sent = events_for(int(key.rpartition("-")[2]), self.last)
        least, kind, path = self._counts[key], "read", f"/agents/Drone/{key}"
        if self._receipt and self._chance.random() < SHARE_OF_SURE_READS:
            least, kind, path = max(least, sent), "sure read", f"{path}?after={self._receipt}"
        answer, _ = await self._until_answered(request("GET", path), kind)
        if answer.status == 404 and least == 0:
            return
        state = answer.values().get("state")
        count = state["count"] if isinstance(state, dict) else -1
        if answer.status != 200 or count < least:
            self._tally.finding(f"{key}: {least} events were seen before, now: {answer}")
        self._counts[key] = max(least, count)

    async def _until_answered(self, message: bytes, kind: str) -> tuple[Answer, int]:
        """The clock of a request runs until it is answered, refusals and retries included."""
        begin = time.perf_counter()
        tries = 0
        while True:
            tries += 1
            try:
                answer = await self._line.ask(message)
            except (OSError, TimeoutError):
                self._tally.broken += 1
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._tally.statuses[answer.status] += 1
            if answer.status not in PASSES:
                self._tally.taken.setdefault(kind, []).append(time.perf_counter() - begin)
                return answer, tries
            await asyncio.sleep(RETRY_SECONDS)


async def load(port: int, count: int, seconds: float, pause: float) -> dict[str, object]:
    tally = Tally()
    clients = [Client(number, port, tally) for number in range(count)]
    follower = Follower(port)
    following = asyncio.create_task(follower.run(hang_up_after=seconds / 2))
    await follower.ready.wait()
    begin = time.perf_counter()
    until = begin + seconds
    await asyncio.gather(*(client.run(until, pause) for client in clients))
    taken = time.perf_counter() - begin
    lasts = [client.last for client in clients]
    await follower.until(lasts, 60.0)
    following.cancel()
    requests = sum(map(len, tally.taken.values()))
    return {
        "lasts": lasts,
        "actions": follower.numbers,
        "actions_again": follower.again,
        "findings": tally.findings,
        "figures": {
            "clients": count,
            "seconds": round(taken, 1),
            "requests_per_second": round(requests / taken),
            "events_per_second": round(sum(lasts) / taken),
            "events": sum(lasts),
            "resent_on_purpose": tally.resent,
            "statuses": dict(tally.statuses),
            "broken_connections": tally.broken,
            "answered_ms": {kind: percentiles(each) for kind, each in tally.taken.items()},
        },
    }


def main() -> None:
    port, count, seconds, pause = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(load(int(port), int(count), float(seconds), float(pause)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
