"""Actions to the topics of their devices, each at least once, with the id that never changes.

A look: 1 read what was issued since, 2 urgent ones first, 3 publish, 4 wait until the broker has
all of them, 5 store how far that is. Whoever dies in between publishes them again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable

import msgspec

from holdfast.errors import AccessDenied, HoldfastError, TryAgain
from holdfast.gateway.mqtt.connection import Ticket
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
        tickets = [ticket for each in _urgent_first(page) if (ticket := self._sent(each))]
        deadline = time.monotonic() + ACKNOWLEDGED_SECONDS
        for ticket in tickets:
            ticket.wait(max(0.0, deadline - time.monotonic()))
        self.published += len(tickets)

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


def _urgent_first(page: ActionPage) -> Iterable[IssuedAction]:
    """Otherwise in their order."""
    return sorted(page, key=lambda each: each.priority != "urgent")


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
