"""Requests to a gateway: connections that are kept, one per request at a time, from any thread.

Whatever is wrong with the line is `Unreachable`: what was asked may have happened, and may be asked
again, because every append carries numbers. Where it does not, as an operator's override, it is
asked `once`: then who gets no answer is told that it may have happened.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast import errors
from holdfast.engine.http.settings import HttpSettings
from holdfast.engine.http.wire import MEDIA
from holdfast.errors import AccessDenied, GiveUp, HoldfastError, Unreachable

CONNECT_SECONDS = 5.0
KEPT_MAX = 16
PROBLEM_BYTES_MAX = 64 * 1024
_BROKEN = (OSError, http.client.HTTPException)


class Line:
    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._context = settings.context()
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False

    @contextmanager
    def ask(
        self, method: str, path: str, body: bytes | None, seconds: float, *, once: bool = False
    ) -> Iterator[http.client.HTTPResponse]:
        """The response to read; read to its end, the connection is kept."""
        connection, response = self._begin(method, path, body, seconds, once)
        try:
            if response.status != 200:
                raise self._refusal(response, once)
            yield response
            if response.isclosed() and not response.will_close:
                self._keep(connection)
                return
        except _BROKEN as error:
            connection.close()
            raise self._unanswered(error, once) from None
        except BaseException:
            connection.close()
            raise
        connection.close()

    def _begin(
        self, method: str, path: str, body: bytes | None, seconds: float, once: bool
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A kept connection may have been closed meanwhile: then a new one. None for `once`."""
        headers = {"content-type": MEDIA}
        if token := self._settings.token():
            headers["authorization"] = f"Bearer {token}"
        while True:
            kept = None if once else self._take()
            connection = kept or self._connect()
            asked = False
            try:
                if connection.sock is None:
                    connection.connect()
                connection.sock.settimeout(seconds)
                asked = True
                connection.request(method, path, body, headers)
                return connection, connection.getresponse()
            except _BROKEN as error:
                connection.close()
                if kept is None or isinstance(error, TimeoutError):
                    raise self._unanswered(error, once and asked) from None
            except BaseException:
                connection.close()
                raise

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._settings.host, self._settings.port
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)
        return http.client.HTTPSConnection(
            host, port, timeout=CONNECT_SECONDS, context=self._context
        )

    def _take(self) -> http.client.HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < KEPT_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _refusal(self, response: http.client.HTTPResponse, once: bool) -> HoldfastError:
        """The problem document as the error it was made of."""
        title, detail = "", ""
        with suppress(ValueError, AttributeError):
            problem = json.loads(response.read(PROBLEM_BYTES_MAX))
            title, detail = str(problem.get("title")), str(problem.get("detail"))
        text = f"{self._settings.place}: {detail or f'HTTP status {response.status}'}"
        kind = getattr(errors, title, None)
        if isinstance(kind, type) and issubclass(kind, HoldfastError):
            return kind(text)
        if response.status == 403:
            return AccessDenied(text)  # the token is known, and may not do this
        if response.status == 401:
            return AccessDenied(f"{text}: set HOLDFAST_TOKEN, or give ?token_file= in the URL")
        if response.status in (408, 429) or response.status >= 500:
            return self._unsure(text) if once else Unreachable(text)
        return errors.UsageError(f"{text} (is a gateway of Holdfast there?)")

    def _unanswered(self, error: BaseException, once: bool) -> HoldfastError:
        text = f"{self._settings.place}: no answer ({str(error) or type(error).__name__})"
        if once:
            return self._unsure(text)
        return Unreachable(f"{text}: does `holdfast run` or `holdfast gateway` run there?")

    @staticmethod
    def _unsure(text: str) -> GiveUp:
        return GiveUp(f"{text}: it may have been recorded: look before you say it again")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
