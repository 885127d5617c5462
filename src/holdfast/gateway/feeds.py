"""What can be followed, as rows behind a cursor: actions, and states that changed."""

from __future__ import annotations

from holdfast.errors import UsageError
from holdfast.gateway.reading import Values, action_values
from holdfast.gateway.streaming import Page
from holdfast.model.keys import check_key
from holdfast.runtime.untyped import UntypedLive
from holdfast.view.changes import Change, Following

NOW = "now"  # as a cursor: what comes from here on


class Feeds:
    def __init__(self, live: UntypedLive) -> None:
        self._live = live
        self._following = Following(live.engine)

    def actions(
        self, agent: str | None, key: str | None, pending: bool, after: str | None, most: int
    ) -> Page:
        """Pending ones are for those who carry them out: none that has expired or is settled."""
        cursor = self._live.actions_end() if after == NOW else after
        page = self._live.actions(after=cursor, most=most, pending=pending)
        rows = [action_values(each) for each in page if _is_for(each.agent, each.key, agent, key)]
        return Page(rows, page.cursor, len(page) >= most)

    def changes(self, agent: str | None, key: str | None, after: str | None, most: int) -> Page:
        if after == NOW:
            return Page([], self._following.now())
        page = self._following.page(after, most)
        wanted = [each for each in page.changes if _is_for(each.agent, each.key, agent, key)]
        rows = [self._change_values(each) for each in wanted]
        return Page(rows, page.cursor, len(page.changes) >= most)

    def _change_values(self, change: Change) -> Values:
        record = change.record
        values: Values = {"agent": change.agent, "key": change.key}
        if record is None:
            return {**values, "gone": True}
        plain = self._live.plain(record.schema, record.state)
        return {
            **values,
            "version": record.version,
            "updated": record.updated,
            "state": plain.values,
        }


def check_filter(agent: str | None, key: str | None) -> None:
    if agent is None and key is not None:
        raise UsageError("key without agent: give both, as in ?agent=Drone&key=d-1")
    if key is not None:
        check_key(key)


def _is_for(agent: str, key: str, wanted: str | None, wanted_key: str | None) -> bool:
    return wanted in (None, agent) and wanted_key in (None, key)
