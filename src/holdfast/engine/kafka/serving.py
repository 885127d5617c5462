"""Answering reads of the partitions that this process owns, for processes that have no copy.

The address of a server stands in the topic of owners, with a token in it: who may read that topic
may read here, and nobody else. What goes over the line is not encrypted. An answer that was under
way when the partition was lost is not given.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from holdfast.engine.kafka.settings import is_loopback
from holdfast.engine.kafka.wire import Request, receive, send, unpack_request
from holdfast.engine.port import View
from holdfast.engine.questions import (
    DONE,
    FAILED,
    MORE,
    NOT_OWNED,
    QUESTIONS,
    REFUSED,
    REQUEST_BYTES_MAX,
    Reply,
    answer,
    pack,
    pack_error,
)
from holdfast.errors import DamagedData, HoldfastError

CONNECTIONS_MAX = 64
# A stranger holds one of the connections for so long at most; ours send at once.
GREETING_SECONDS = 5.0
IDLE_SECONDS = 60.0  # twice as long as those who ask keep one that they do not use
SEND_SECONDS = 30.0  # for a chunk of 1 MiB: slower lines are no use
CLOSE_SECONDS = 2.0  # reads of a view that are under way have so long to end
_LISTEN_SECONDS = 1.0
_PAUSE_SECONDS = 0.1

_log = logging.getLogger("holdfast.serving")
_NOTHING = msgspec.Raw(pack(None))


class Owned(NamedTuple):
    """A partition that this process owns: with which claim, and what was committed."""

    epoch: int
    view: View


# None where the partition is not owned here now, or the engine is closed. Asked before every
# answer and once more behind it, from many threads: it must be cheap.
Look = Callable[[int], Owned | None]


class ViewServer:
    def __init__(
        self,
        look: Look,
        host: str = "127.0.0.1",
        *,
        connections_max: int = CONNECTIONS_MAX,
        greeting_seconds: float = GREETING_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`host` is what others are told; on loopback nobody else can connect."""
        self._look = look
        self._connections_max = connections_max
        self._greeting_seconds = greeting_seconds
        self._idle_seconds = idle_seconds
        self._token = secrets.token_urlsafe(24)
        self._closed = False
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._listener = _listen(host)
        port = self._listener.getsockname()[1]
        self.address = f"{f'[{host}]' if ':' in host else host}:{port}#{self._token}"
        self._accepting = threading.Thread(
            target=self._accept, name="holdfast-serving", daemon=True
        )
        self._accepting.start()

    # Connections.

    def _accept(self) -> None:
        while not self._closed:
            try:
                line, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                if not self._closed:
                    time.sleep(_PAUSE_SECONDS)  # no descriptors are left, which passes
                continue
            if not self._admit(line):
                line.close()

    def _admit(self, line: socket.socket) -> bool:
        attending = threading.Thread(
            target=self._attend, args=(line,), name="holdfast-view", daemon=True
        )
        with self._lock:
            if self._closed:
                return False
            if len(self._open) < self._connections_max:
                try:
                    attending.start()
                except RuntimeError:
                    return False  # the system has no more threads for us
                self._open[line] = attending
                return True
        # The buffer of a new line takes these few bytes at once: nobody waits for a stranger.
        _try_to_send(line, _refusal("it has too many connections"))
        return False

    def _attend(self, line: socket.socket) -> None:
        try:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            seconds = self._greeting_seconds
            while not self._closed and self._serve(line, seconds):
                seconds = self._idle_seconds
        except (OSError, EOFError):
            pass  # whoever asked has gone, or said nothing for too long
        except Exception:
            _log.exception("a reader was not answered")
        finally:
            with self._lock:
                self._open.pop(line, None)
            line.close()

    def _serve(self, line: socket.socket, seconds: float) -> bool:
        """One request; False: there shall be no other on this line."""
        try:
            request = unpack_request(receive(line, REQUEST_BYTES_MAX, seconds))
        except (DamagedData, msgspec.MsgspecError) as error:
            _try_to_send(line, _refusal(f"that is no request: {error}"))
            return False
        if not hmac.compare_digest(request.token.encode(), self._token.encode()):
            _try_to_send(line, _refusal("the token is wrong"))
            return False
        self._answer(line, request)
        return True

    # Answers.

    def _answer(self, line: socket.socket, request: Request) -> None:
        """1 who owns it, 2 frame by frame, 3 who owns it now, 4 the last frame.

        That is held back until the claim was looked at again, so that whoever has the whole answer
        knows that it was the owner's.
        """
        last: Reply | None = None
        owned = None if self._closed else self._look(request.partition)
        if owned is not None:
            for reply in self._replies(owned, request):
                if last is not None:
                    send(line, last, SEND_SECONDS)
                last = reply
            now = None if self._closed else self._look(request.partition)
            if now is None or now.epoch != owned.epoch:
                last = None
        if last is None:
            last = Reply(NOT_OWNED, 0, 0, _NOTHING)
        elif last.status == MORE:
            last = msgspec.structs.replace(last, status=DONE)
        send(line, last, SEND_SECONDS)

    def _replies(self, owned: Owned, request: Request) -> Iterator[Reply]:
        """At least one. Whatever is wrong with the request or the view is a reply too."""
        epoch, commits = owned.epoch, 0
        question = QUESTIONS.get(request.method)
        if question is None:
            yield _refusal(f"there is no {request.method!r} to ask for")
            return
        try:
            arguments = question.unpack_arguments(request.arguments)
        except msgspec.MsgspecError as error:
            yield _refusal(f"{request.method}: {error}")
            return
        try:
            commits = owned.view.head().commits  # first: what is read after it has all of them
            for payload in answer(owned.view, request.method, arguments):
                yield Reply(MORE, epoch, commits, payload)
        except HoldfastError as error:
            yield Reply(FAILED, epoch, commits, pack_error(error))
        except Exception as error:
            _log.exception("partition %d, %s", request.partition, request.method)
            yield _refusal(f"{request.method}: {type(error).__name__}: {error}")

    def close(self) -> None:
        """From here on nobody is answered. Views may be closed after it."""
        self._closed = True
        _hang_up(self._listener)
        with self._lock:
            attended = dict(self._open)
        for line in attended:
            _hang_up(line)
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in (self._accepting, *attended.values()):
            thread.join(max(0.0, deadline - time.monotonic()))
        self._listener.close()


def _listen(host: str) -> socket.socket:
    if is_loopback(host):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, 0), family=family)
    else:
        try:
            listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        except (OSError, ValueError):  # this machine has one of both only
            listener = socket.create_server(("", 0))
    # On some systems a shutdown wakes nobody who waits for a connection.
    listener.settimeout(_LISTEN_SECONDS)
    return listener


def _refusal(why: str) -> Reply:
    return Reply(REFUSED, 0, 0, msgspec.Raw(pack(why)))


def _try_to_send(line: socket.socket, reply: Reply) -> None:
    try:
        send(line, reply, _PAUSE_SECONDS)
    except OSError:
        pass  # it is hung up next anyway


def _hang_up(line: socket.socket) -> None:
    """For every process that has it, a child that was forked too; who reads from it wakes up.

    The descriptor stays open until its thread closes it, so that its number is no other file's.
    """
    try:
        line.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other end was faster
