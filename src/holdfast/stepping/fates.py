"""What became of actions, in memory: by their ids, and in the order in which it happened."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.stepping.commit import Fate


class Fates:
    def __init__(self, fates: Iterable[Fate] = ()) -> None:
        self._all: list[Fate] = []
        self._by_id: dict[str, list[Fate]] = {}
        self.add(fates)

    def add(self, fates: Iterable[Fate]) -> None:
        for one in fates:
            self._all.append(one)
            self._by_id.setdefault(one.id, []).append(one)

    def of(self, ids: Iterable[str]) -> list[Fate]:
        return [one for id in dict.fromkeys(ids) for one in self._by_id.get(id, ())]

    def cut(self, length: int) -> None:
        """Forget all behind the first `length`."""
        while len(self._all) > length:
            one = self._all.pop()
            self._by_id[one.id].remove(one)

    def __len__(self) -> int:
        return len(self._all)

    def all(self) -> list[Fate]:
        return list(self._all)
