"""What readers elsewhere may ask of a view, and the bytes of the answers.

An answer is one reply or several, all but the last with the status MORE: [status, epoch, commits,
payload]. Who asks is in `asked`; the ways there are those of engines: lines between processes on
Kafka, requests to a gateway over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, get_origin

import msgspec

from holdfast import errors
from holdfast.engine.port import Change, View
from holdfast.errors import HoldfastError
from holdfast.stepping.commit import (
    Answer,
    Call,
    CommitNote,
    Fate,
    Head,
    Issued,
    Journalled,
    Letter,
    Record,
)
from holdfast.stepping.inputs import StoredFrame

REQUEST_BYTES_MAX = 64 * 1024  # a name, a key and two numbers need 1 KiB
CHUNK_BYTES = 1024 * 1024  # of an answer in several frames; one item may be larger
# The largest item is a frame of 64 MiB, or a state of about as much, and a chunk before it.
REPLY_BYTES_MAX = 160 * 1024 * 1024
FRAMES_BYTES_MAX = 256 * 1024 * 1024  # past it an answer of frames ends, as inboxes do it

DONE, MORE = "done", "more"
FAILED = "failed"  # with an error of ours: the class and the text
REFUSED = "refused"  # the request, or the moment, is wrong: a text
NOT_OWNED = "not owned"  # here, now

pack = msgspec.msgpack.Encoder().encode


class Reply(msgspec.Struct, array_like=True, frozen=True):
    status: str
    epoch: int  # of the claim of who answers; 0: it has none
    commits: int  # so many are in the answer, or more
    payload: msgspec.Raw


unpack_reply = msgspec.msgpack.Decoder(Reply).decode
unpack_text = msgspec.msgpack.Decoder(str).decode
_unpack_error = msgspec.msgpack.Decoder(tuple[str, str]).decode


# ---------------------------------------------------------------- what can be asked


class Paging(NamedTuple):
    """Of a method with `first` and `most` whose rows only grow in number: how it is taken apart."""

    most: int  # rows, or events, at once
    span: Callable[[Any], range]  # the numbers that a row has
    by_event: bool = False


def _run(row: StoredFrame | Journalled | Issued) -> range:
    return range(row.first, row.first + row.count)


def _note(row: CommitNote) -> range:
    return range(row.number, row.number + 1)


class Question:
    def __init__(self, arguments: object, answer: object, paging: Paging | None = None) -> None:
        self.arguments = arguments
        self.answer = answer
        self.paging = paging
        self.in_chunks = get_origin(answer) is list
        self.unpack_arguments = msgspec.msgpack.Decoder(arguments).decode
        self.unpack = msgspec.msgpack.Decoder(answer).decode


# Every method of `View` and nothing else: the arguments, and what is answered.
QUESTIONS: dict[str, Question] = {
    "head": Question(tuple[()], Head),
    "inbox_next": Question(tuple[()], int),
    "urgent_next": Question(tuple[()], int),
    "inbox_first": Question(tuple[()], int),
    "position_of": Question(tuple[int], int | None),
    "record": Question(tuple[str, str], Record | None),
    "records": Question(tuple[str | None], list[Record]),
    "changes": Question(tuple[int], list[Change]),
    "frames": Question(tuple[int, int], list[StoredFrame], Paging(16_384, _run, by_event=True)),
    "journal": Question(tuple[int, int], list[Journalled], Paging(64, _run)),
    "commits": Question(tuple[int, int], list[CommitNote], Paging(4096, _note)),
    "actions": Question(tuple[int, int], list[Issued], Paging(64, _run)),
    "letters": Question(tuple[()], list[tuple[Letter, bool]]),
    "letter": Question(tuple[int], Letter | None),
    "answer": Question(tuple[int], Answer | None),
    "fates": Question(tuple[()], list[Fate]),
    "fates_of": Question(tuple[Sequence[str]], list[Fate]),
    "calls": Question(tuple[int, int], list[Call]),
    "sent_next": Question(tuple[()], dict[int, int]),
    "marks": Question(tuple[()], dict[str, int]),
    "incarnation": Question(tuple[()], str),
    "owner": Question(tuple[()], str),
}


def answer(view: View, method: str, arguments: tuple[Any, ...]) -> Iterator[msgspec.Raw]:
    """The payloads of an answer, at least one. Rows are read from the view as they are taken."""
    question = QUESTIONS[method]
    ask = getattr(view, method)
    if not question.in_chunks:
        yield msgspec.Raw(pack(ask(*arguments)))
        return
    paging = question.paging
    rows = ask(*arguments) if paging is None else _in_pages(ask, paging, *arguments)
    chunk: list[msgspec.Raw] = []
    size = total = 0
    for row in rows:
        packed = pack(row)
        chunk.append(msgspec.Raw(packed))
        size += len(packed)
        if size >= CHUNK_BYTES:
            yield msgspec.Raw(pack(chunk))
            total += size
            chunk, size = [], 0
            if paging is not None and paging.by_event and total >= FRAMES_BYTES_MAX:
                return
    yield msgspec.Raw(pack(chunk))


def _in_pages(
    ask: Callable[[int, int], list[Any]], paging: Paging, first: int, most: int
) -> Iterator[Any]:
    """What `ask(first, most)` gives, without having all of it at once."""
    left, begun = most, False
    while True:
        wanted = min(left, paging.most)
        page = ask(first, wanted)
        if begun and page and paging.span(page[0]).start != first:
            return  # retention took what comes next: an answer has no gap in it
        yield from page
        weight = sum(len(paging.span(row)) for row in page) if paging.by_event else len(page)
        left -= weight
        if weight < wanted or left <= 0:
            return
        first, begun = paging.span(page[-1]).stop, True


# ---------------------------------------------------------------- errors of ours

_CLASSES = {
    name: each
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, HoldfastError)
}


def pack_error(error: HoldfastError) -> msgspec.Raw:
    """As the nearest class that everybody has: some are defined beside what raises them."""
    mro = type(error).__mro__
    name = next(each.__name__ for each in mro if each in _CLASSES.values())
    return msgspec.Raw(pack((name, str(error))))


def unpack_error(packed: msgspec.Raw) -> HoldfastError:
    name, text = _unpack_error(packed)
    return _CLASSES.get(name, HoldfastError)(text)
