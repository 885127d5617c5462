"""Functions that agents call in tests: each goes wrong, or right, in its own way."""

import asyncio
import ctypes
import os
import subprocess
import sys
import time
from enum import Enum
from pathlib import Path

from holdfast import Event


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(Event):
    x: float
    y: float


class Told(Event):
    text: str


class Other(Event):
    text: str


def tell(text: str) -> Told:
    return Told(text)


def describe(where: Point, colour: Colour, *more: float, call_id: str) -> Told:
    """Annotations decide what arrives."""
    return Told(f"{where!r} {colour!r} {more!r} {call_id}")


def id_first(call_id: str, text: str = "nothing") -> Told:
    return Told(f"{call_id} {text}")


def untyped(one, two=2):  # type: ignore[no-untyped-def]
    return Told(f"{one!r} {two!r}")


def chatter(text: str) -> Told:
    print("this would break a protocol on standard output")
    os.write(1, b"and so would this\n")
    sys.stdout.flush()
    return Told(text)


def surroundings() -> Told:
    return Told(repr([os.getcwd(), os.environ.get("FLAVOUR"), sys.path, sys.stdin.read()]))


def own_pid() -> Told:
    return Told(str(os.getpid()))


def fail(text: str) -> Told:
    raise ValueError(text)


def fail_long() -> Told:
    raise ValueError("x" * 100_000)


def leave(code: int) -> Told:
    sys.exit(code)


def die(code: int) -> Told:
    os._exit(code)


def crash() -> Told:
    ctypes.string_at(0)
    raise AssertionError("unreachable")


def fork(text: str) -> Told:
    """Both of the two come back from here."""
    return Told(f"{text} {'child' if os.fork() == 0 else 'parent'}")


def strike(number: int) -> Told:
    os.kill(os.getpid(), number)
    raise AssertionError("unreachable")


def scribble(data: str) -> Told:
    """Writes to every descriptor it finds."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2:
                os.write(int(name), bytes.fromhex(data))
        except OSError:
            pass
    return Told("written")


def close_all() -> Told:
    os.closerange(0, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    return Told("closed")


def fail_unencodable() -> Told:
    raise FileNotFoundError(os.fsdecode(b"caf\xe9.txt"))


def sleep(seconds: float) -> Told:
    time.sleep(seconds)
    return Told(f"slept {seconds:g}")


def sleep_with_a_child(file: str) -> Told:
    """Starts a program that would outlive it."""
    process = subprocess.Popen(["sleep", "600"])
    Path(file).write_text(str(process.pid))
    time.sleep(600.0)
    return Told("")


def die_with_a_child(file: str) -> Told:
    Path(file).write_text(str(subprocess.Popen(["sleep", "600"]).pid))
    os._exit(3)


def large(size: int) -> Told:
    return Told("x" * size)


def other() -> Other:
    return Other("not what was asked for")


def number() -> int:
    return 7


def unpackable() -> Told:
    return Told(object())  # type: ignore[arg-type]


def misfit() -> Told:
    return Told(7)  # type: ignore[arg-type]


def log_id(file: str, call_id: str) -> Told:
    """Notes that it ran, in one write, however many do so at once."""
    with Path(file).open("ab", buffering=0) as log:
        log.write(f"{call_id}\n".encode())
    return Told(call_id)


async def tell_async(text: str, call_id: str) -> Told:
    await asyncio.sleep(0)
    return Told(f"{text} {call_id}")


async def sleep_async(seconds: float) -> Told:
    await asyncio.sleep(seconds)
    return Told(f"slept {seconds:g}")


async def fail_async(text: str) -> Told:
    await asyncio.sleep(0)
    raise ValueError(text)


async def fail_unencodable_async() -> Told:
    fail_unencodable()
    raise AssertionError("unreachable")


async def fork_async(text: str) -> Told:
    return fork(text)


async def block_async(seconds: float) -> Told:
    time.sleep(seconds)
    return Told("the loop stood still")


async def stay_async() -> Told:
    """Does not end when it is cancelled."""
    while True:
        try:
            await asyncio.sleep(60.0)
        except asyncio.CancelledError:
            pass


async def die_async() -> Told:
    os._exit(9)
