"""Actions to the topics of their devices, each at least once, with the id that never changes.

A look: 1 read what was issued since, 2 urgent ones first, 3 publish, 4 wait until the broker has
all of them, 5 store how far that is. Whoever dies in between publishes them again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque

import msgspec

from holdfast.errors import AccessDenied, HoldfastError, TryAgain
from holdfast.gateway.mqtt.connection import PUBLISHES_AT_ONCE, Ticket
from holdfast.gateway.mqtt.keeping import Keeping
from holdfast.gateway.mqtt.link import Link
from holdfast.gateway.mqtt.table import Table
from holdfast.runtime.reading import ActionPage, IssuedAction, Plain
from holdfast.runtime.untyped import UntypedLive

LOOK_SECONDS = 0.05
ACTIONS_PER_LOOK = 2_000
ACKNOWLEDGED_SECONDS = 30.0
RETRY_SECONDS = 1.0
TELL_SECONDS = 10.0

_log = logging.getLogger("holdfast.mqtt")


class Commander:
    """On a thread of its own, until stopped."""

    def __init__(
        self,
        live: UntypedLive,
        link: Link,
        table: Table,
        keeping: Keeping,
        *,
        expires: bool,
        from_now: bool = False,
    ) -> None:
        """`expires`: the broker knows messages that do. `from_now`: if nothing was ever
        published, what was issued before is not."""
        self._live = live
        self._link = link
        self._table = table
        self._keeping = keeping
        self._expires = expires
        self._cursor = keeping.cursor
        if self._cursor is None and from_now:
            self._skip()
        self._told = float("-inf")
        self._done: set[str] = set()  # of the page that is published, what the broker has
        self._refused: set[str] = set()  # and what it has refused
        self._stopping = threading.Event()
        self.published = 0
        self.expired = 0
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-commands", daemon=True)
        self._thread.start()

    def _skip(self) -> None:
        while page := self._live.actions(after=self._cursor):
            self._cursor = page.cursor
        self._keeping.store_cursor(page.cursor)
        self._cursor = page.cursor

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._stopping.wait(self._look())
        except BaseException as error:
            self.failure = error

    def _look(self) -> float:
        """For how long to wait before the next one."""
        if not self._link.is_ready:
            return LOOK_SECONDS
        try:
            page = self._live.actions(after=self._cursor, most=ACTIONS_PER_LOOK)
            if not page:
                return LOOK_SECONDS
            self._publish(page)
            self._keeping.store_cursor(page.cursor)
        except HoldfastError as trouble:
            # Rights on the broker can be mended while we wait.
            if not isinstance(trouble, (TryAgain, AccessDenied)):
                raise
            self._complain(trouble)
            return RETRY_SECONDS
        self._cursor = page.cursor
        return 0.0

    def _publish(self, page: ActionPage) -> None:
        """As many at once as are sent at once: none grows old in a queue behind others.

        What the broker has is not published again, and what it has refused comes last: some
        brokers end the connection over it.
        """
        refusals: list[AccessDenied] = []
        opened: deque[tuple[str, Ticket]] = deque()
        for issued in sorted(page, key=self._rank):
            if issued.id in self._done:
                continue
            if len(opened) >= PUBLISHES_AT_ONCE:
                self._await(*opened.popleft(), refusals)
            if (ticket := self._sent(issued)) is not None:
                opened.append((issued.id, ticket))
        while opened:
            self._await(*opened.popleft(), refusals)
        if refusals:
            raise refusals[0]
        self._done.clear()
        self._refused.clear()

    def _rank(self, issued: IssuedAction) -> tuple[bool, bool]:
        """Urgent ones first, otherwise in their order."""
        return issued.id in self._refused, issued.priority != "urgent"

    def _await(self, id: str, ticket: Ticket, refusals: list[AccessDenied]) -> None:
        try:
            ticket.wait(ACKNOWLEDGED_SECONDS)
        except AccessDenied as refusal:
            refusals.append(refusal)
            self._refused.add(id)
            return
        self._done.add(id)
        self.published += 1

    def _sent(self, issued: IssuedAction) -> Ticket | None:
        action = issued.action
        assert isinstance(action, Plain)
        rule = self._table.action_rule(issued.agent, action.name)
        if rule is None:
            return None
        seconds: int | None = None
        if issued.expires_at is not None:
            left = issued.expires_at - time.time()
            if left <= 0:
                self.expired += 1
                return None
            seconds = max(1, int(left))
        # Without expiry of messages, what the broker keeps would be handed out for ever.
        retain = rule.retain and (seconds is None or self._expires)
        topic = rule.topic.filled(issued.key, action.name)
        return self._link.publish(topic, payload_of(issued, action), retain, seconds, issued.trace)

    def _complain(self, trouble: HoldfastError) -> None:
        now = time.monotonic()
        if now - self._told > TELL_SECONDS:
            self._told = now
            _log.warning("commands wait: %s", trouble)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def payload_of(issued: IssuedAction, action: Plain) -> bytes:
    told: dict[str, object] = {
        "id": issued.id,
        "type": action.name,
        "data": action.values,
        "issued": issued.now,
        "expires_at": issued.expires_at,
        "priority": issued.priority,
    }
    if issued.undoes is not None:
        told |= {"undoes": issued.undoes, "why": issued.why}
    return msgspec.json.encode(told)
