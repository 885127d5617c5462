"""Routes that read views: which there are, their rows, one row."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from holdfast.errors import Missing
from holdfast.gateway.asked import Asked
from holdfast.gateway.crew import Crews
from holdfast.gateway.endpoints import PAGE, Values, read, route
from holdfast.gateway.settings import Bounds
from holdfast.gateway.tokens import Role
from holdfast.runtime.sending import Receipt
from holdfast.runtime.untyped import UntypedLive, read_receipt
from holdfast.runtime.viewing.reading import READ_SECONDS, StoredView, values_of
from holdfast.runtime.viewing.shelf import names_in


class ViewRoutes:
    def __init__(self, live: UntypedLive, crews: Crews, bounds: Bounds) -> None:
        self._live = live
        self._crews = crews
        self._bounds = bounds

    def routes(self) -> list[BaseRoute]:
        return [
            route("/views", "GET", Role.READ, self._views),
            route("/views/{view}", "GET", Role.READ, self._rows),
            route("/views/{view}/{key}", "GET", Role.READ, self._row),
        ]

    async def _views(self, request: Request) -> Response:
        def look(asked: Asked) -> Values:
            names = names_in(self._live.views_folder())
            return {"views": [self._live.stored_view(n).standing()._asdict() for n in names]}

        return await read(self._crews.slow, request, (), look)

    async def _rows(self, request: Request) -> Response:
        def look(asked: Asked) -> Values:
            most = asked.whole("most", PAGE, 1, self._bounds.rows_per_page_max)
            first = asked.text("from") or ""
            found = values_of(self._view(request).rows(first, most + 1, *self._after(asked)))
            following = found[most][0] if len(found) > most else None
            rows = [{"key": key, "row": row} for key, row in found[:most]]
            return {"rows": rows, "next": following}

        return await read(self._crews.slow, request, ("from", "most", "after", "timeout"), look)

    async def _row(self, request: Request) -> Response:
        key = request.path_params["key"]

        def look(asked: Asked) -> Values:
            view = self._view(request)
            found = values_of(view.row(key, *self._after(asked)))
            if not found:
                raise Missing(f"view {view.name} has no row {key!r}")
            return {"key": key, "row": found[0][1]}

        return await read(self._crews.slow, request, ("after", "timeout"), look)

    def _view(self, request: Request) -> StoredView:
        """Only names that are there are opened: others may ask for any."""
        name = request.path_params["view"]
        names = names_in(self._live.views_folder())
        if name not in names:
            raise Missing(f"no view {name!r}: there is {', '.join(names) or 'none'}")
        return self._live.stored_view(name)

    def _after(self, asked: Asked) -> tuple[Receipt | None, float]:
        text = asked.text("after")
        seconds = asked.seconds("timeout", READ_SECONDS, self._bounds.ask_seconds_max)
        return None if text is None else read_receipt(text), seconds
