"""Claims of several partitions at once: each of them mostly waits for brokers, so a machine that
takes over many partitions needs not much longer than for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from holdfast.engine.port import Claim
from holdfast.errors import TryAgain

CLAIMS_AT_ONCE = 8  # each has a producer that begins, with a thread per broker


def claims(
    numbers: Sequence[int], claim: Callable[[int], Claim | None]
) -> Iterator[tuple[int, Claim | TryAgain | None]]:
    """What became of each, in their order. None where it was not the moment for it.

    All are tried before the first is told; what is more than trouble that passes is raised then.
    """

    def tried(number: int) -> Claim | TryAgain | None:
        try:
            return claim(number)
        except TryAgain as trouble:
            return trouble

    if len(numbers) <= 1:
        yield from ((number, tried(number)) for number in numbers)
        return
    with ThreadPoolExecutor(min(len(numbers), CLAIMS_AT_ONCE), "holdfast-claim") as threads:
        made = [threads.submit(tried, number) for number in numbers]
    for number, one in zip(numbers, made, strict=True):
        yield number, one.result()
