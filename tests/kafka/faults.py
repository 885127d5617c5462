"""Faults as data: a plan is a list of them, made from a seed, and carried out one by one.

Each kind ends with everything able to run again: what was killed is started, what was stopped goes
on, the network is whole. So the fleet has to come back by itself.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tests.kafka.place import PARTITIONS, Machine, Place
from tests.kills.harness import wait_until
from tests.kills.script import SOURCES

ROOM_BYTES = 500_000
FILL_SECONDS = 60.0


class Fault(NamedTuple):
    kind: str
    after_seconds: float  # since the one before
    lasts_seconds: float  # for kinds that last
    pick: int  # which one it hits, of those there are

    def __str__(self) -> str:
        return f"{self.kind}(after {self.after_seconds}, {self.lasts_seconds} s, {self.pick})"


# How often each kind comes, beside the others.
MIXED: Mapping[str, int] = {
    "kill a worker": 6,
    "stop a worker": 3,
    "kill a supervisor": 2,
    "stop a supervisor": 2,
    "kill a producer": 2,
    "stop a producer": 1,
    "kill all workers": 1,
    "kill a worker while others join": 3,
    "pause a machine": 3,
    "kill the leader of a partition": 2,
    "kill the controller": 1,
    "stop a broker": 1,
    "restart all brokers": 1,
    "cut off a broker": 2,
    "cut off all brokers": 2,
    "delay": 2,
    "hold answers": 3,
    "swallow everything": 1,
}
WORKERS_ONLY: Mapping[str, int] = {"kill a worker": 1}


def plan(seed: int, kinds: Mapping[str, int], count: int) -> list[Fault]:
    """Every kind once, in any order, and more of them by their weights."""
    chance = random.Random(seed)
    names = chance.sample(list(kinds), min(count, len(kinds)))
    names += chance.choices(list(kinds), list(kinds.values()), k=count - len(names))
    chance.shuffle(names)
    return [
        Fault(
            name,
            round(chance.uniform(0.2, 2.0), 2),
            round(chance.uniform(0.5, 4.0), 2),
            chance.randrange(1000),
        )
        for name in names
    ]


def carry_out(fault: Fault, place: Place) -> None:
    _HOW[fault.kind](place, fault)


def _machine(place: Place, fault: Fault) -> Machine:
    return place.machines[fault.pick % len(place.machines)]


def _signal_workers(pids: Sequence[int], how: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, how)
        except ProcessLookupError:
            pass  # it has just ended


def _one_worker(how: signal.Signals) -> Callable[[Place, Fault], None]:
    def carry_out(place: Place, fault: Fault) -> None:
        workers = [pid for machine in place.machines for pid in machine.workers()]
        if workers:
            _signal_workers([workers[fault.pick % len(workers)]], how)

    return carry_out


def _kill_all_workers(place: Place, fault: Fault) -> None:
    for machine in place.machines:
        _signal_workers(machine.workers(), signal.SIGKILL)


def _kill_while_others_join(place: Place, fault: Fault) -> None:
    """Partitions move to workers that join: the one that gives them away dies about then."""
    giving, joining = place.machines[fault.pick % 2], place.machines[1 - fault.pick % 2]
    joining.stop(1 + fault.pick % 3)
    wait_until(joining.workers, 60.0, "others start")
    time.sleep(fault.lasts_seconds / 2)
    workers = giving.workers()
    _signal_workers([workers[fault.pick % len(workers)]] if workers else [], signal.SIGKILL)


def _kill_supervisor(place: Place, fault: Fault) -> None:
    _machine(place, fault).kill(1 + fault.pick % 3)


def _stop_supervisor(place: Place, fault: Fault) -> None:
    _machine(place, fault).stop(1 + fault.pick % 3)


def _end_producer(how: signal.Signals) -> Callable[[Place, Fault], None]:
    return lambda place, fault: place.end_producer(SOURCES[fault.pick % len(SOURCES)], how)


def _pause_machine(place: Place, fault: Fault) -> None:
    """All of it stands still, longer than its session, while the other takes its partitions over.

    The supervisor wakes up last: it would end workers that were silent for long, and they are to
    try their old commits first.
    """
    machine = _machine(place, fault)
    workers = machine.workers()
    _signal_workers([machine.pid, *workers], signal.SIGSTOP)
    time.sleep(2.5 + fault.lasts_seconds / 2)
    _signal_workers(workers, signal.SIGCONT)
    time.sleep(0.5)
    _signal_workers([machine.pid], signal.SIGCONT)


def _without_broker(place: Place, number: int, fault: Fault) -> None:
    time.sleep(fault.lasts_seconds)
    place.cluster.broker(number).start()
    place.cluster.wait_ready()


def _kill_leader(place: Place, fault: Fault) -> None:
    topic = ("swarm.inbox.0", "swarm.changelog.0")[fault.pick % 2]
    number = place.cluster.leader_of(topic, fault.pick % PARTITIONS)
    place.cluster.broker(number).kill()
    _without_broker(place, number, fault)


def _kill_controller(place: Place, fault: Fault) -> None:
    number = place.cluster.controller()
    place.cluster.broker(number).kill()
    _without_broker(place, number, fault)


def _stop_broker(place: Place, fault: Fault) -> None:
    number = 1 + fault.pick % len(place.cluster.brokers)
    place.cluster.broker(number).stop()
    _without_broker(place, number, fault)


def _restart_brokers(place: Place, fault: Fault) -> None:
    for broker in place.cluster.brokers:
        broker.stop()
        broker.start()
        place.cluster.wait_ready()


def _fill_disk(place: Place, fault: Fault) -> None:
    """Somebody else's file leaves a little room, events take it, and the broker gives up."""
    cluster = place.cluster
    broker, disks = cluster.broker(1), cluster.disks
    assert disks is not None, "this needs a small disk"
    found = os.statvfs(broker.data)
    free = found.f_bavail * found.f_frsize
    (broker.data / "ballast").write_bytes(bytes(max(0, free - ROOM_BYTES)))
    wait_until(lambda: not broker.is_running, FILL_SECONDS, "the broker ends on a full disk")
    time.sleep(fault.lasts_seconds)
    disks.resize(4 * found.f_blocks * found.f_frsize)
    broker.start()
    cluster.wait_ready()


def _network(
    worsen: Callable[[Place, int | None], None], *, everywhere: bool
) -> Callable[[Place, Fault], None]:
    def carry_out(place: Place, fault: Fault) -> None:
        brokers = place.cluster.brokers
        worsen(place, None if everywhere else brokers[fault.pick % len(brokers)].port)
        time.sleep(fault.lasts_seconds)
        place.proxy.heal()

    return carry_out


_HOW: Mapping[str, Callable[[Place, Fault], None]] = {
    "kill a worker": _one_worker(signal.SIGKILL),
    "stop a worker": _one_worker(signal.SIGTERM),
    "kill all workers": _kill_all_workers,
    "kill a worker while others join": _kill_while_others_join,
    "kill a supervisor": _kill_supervisor,
    "stop a supervisor": _stop_supervisor,
    "kill a producer": _end_producer(signal.SIGKILL),
    "stop a producer": _end_producer(signal.SIGTERM),
    "pause a machine": _pause_machine,
    "kill the leader of a partition": _kill_leader,
    "kill the controller": _kill_controller,
    "stop a broker": _stop_broker,
    "restart all brokers": _restart_brokers,
    "fill the disk": _fill_disk,
    "cut off a broker": _network(lambda place, port: place.proxy.cut(port), everywhere=False),
    "cut off all brokers": _network(lambda place, port: place.proxy.cut(port), everywhere=True),
    "delay": _network(lambda place, port: place.proxy.delay(0.15, port), everywhere=True),
    "hold answers": _network(lambda place, port: place.proxy.hold_answers(port), everywhere=False),
    "swallow everything": _network(
        lambda place, port: place.proxy.blackhole(port), everywhere=True
    ),
}
