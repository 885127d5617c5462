"""Making the program's classes and the stored schemas agree, before anything is folded."""

from __future__ import annotations

from holdfast.engine.port import Catalog
from holdfast.model.fleet import FleetModel
from holdfast.model.schema import Schema, check_successor
from holdfast.stepping.codebook import Codebook


def agree(fleet: FleetModel, catalog: Catalog) -> tuple[Codebook, int]:
    """The codebook, and the generation of this program: the newest schema it brings along.

    A class that is new or changed must be able to read what is stored under its name.
    """
    stored = catalog.schemas()
    wanted = fleet.schemas()
    known = {(s.kind, s.fingerprint) for s in stored.values()}
    for schema in wanted:
        if (schema.kind, schema.fingerprint) not in known:
            _check_against_stored(fleet, schema, stored)
    catalog.register(wanted)

    def register(schema: Schema) -> int:
        _check_against_stored(fleet, schema, catalog.schemas())
        return catalog.register([schema])[schema.fingerprint]

    codebook = Codebook(fleet, catalog.schemas(), register)
    folded = [*fleet.agents.values(), *fleet.events.values()]
    return codebook, max(codebook.id_of(cls) for cls in folded)


def _check_against_stored(fleet: FleetModel, schema: Schema, stored: dict[int, Schema]) -> None:
    classes: dict[str, dict[str, type]] = {
        "event": dict(fleet.events),
        "action": dict(fleet.actions),
        "state": dict(fleet.agents),
    }
    cls = classes[schema.kind].get(schema.name)
    for older in stored.values():
        if (older.kind, older.name) == (schema.kind, schema.name):
            check_successor(schema, older, cls is not None and hasattr(cls, "upcast"))
