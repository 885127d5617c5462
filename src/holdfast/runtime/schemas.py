"""Making the program's classes and the stored schemas agree, before anything is folded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from holdfast.engine.port import Catalog, Engine
from holdfast.errors import SchemaError
from holdfast.model.fleet import FleetModel
from holdfast.model.schema import Kind, Schema, check_successor
from holdfast.stepping.codebook import Codebook

InUse = Callable[[int, Schema], bool]


def states_in_use(engine: Engine) -> InUse:
    """Whether an agent is still stored in the form of a schema. Reads all of them: ask rarely."""

    def look(schema_id: int, schema: Schema) -> bool:
        for number in engine.catalog.layout.numbers:
            for record in engine.view(number).records(schema.name):
                if record.schema == schema_id:
                    return True
        return False

    return look


def agree(
    fleet: FleetModel, catalog: Catalog, in_use: InUse = lambda schema_id, schema: True
) -> tuple[Codebook, int]:
    """The codebook, and the generation of this program: the newest schema it brings along.

    A class that is new or changed must be able to read what is stored under its name.
    """
    check_classes(fleet, catalog.schemas(), fleet.schemas(), in_use)
    return register(fleet, catalog, in_use)


def register(
    fleet: FleetModel, catalog: Catalog, in_use: InUse = lambda schema_id, schema: True
) -> tuple[Codebook, int]:
    """`agree` for classes that have been checked, or that a migration will make fit."""
    catalog.register(fleet.schemas())

    def register_one(schema: Schema) -> int:
        check_classes(fleet, catalog.schemas(), [schema], in_use)
        return catalog.register([schema])[schema.fingerprint]

    codebook = Codebook(fleet, catalog.schemas(), register_one)
    folded = [*fleet.agents.values(), *fleet.events.values()]
    return codebook, max(codebook.id_of(cls) for cls in folded)


def codebook_of(fleet: FleetModel, stored: Mapping[int, Schema] | None = None) -> Codebook:
    """A codebook whose registry is a dictionary; ids of stored schemas stay as they are."""
    known = {(schema.kind, schema.fingerprint): number for number, schema in (stored or {}).items()}
    last = max(known.values(), default=0)

    def register(schema: Schema) -> int:
        nonlocal last
        at = (schema.kind, schema.fingerprint)
        if at not in known:
            last += 1
            known[at] = last
        return known[at]

    schemas = dict(stored or {})
    schemas.update({register(schema): schema for schema in fleet.schemas()})
    return Codebook(fleet, schemas, register)


def check_classes(
    fleet: FleetModel,
    stored: dict[int, Schema],
    wanted: Iterable[Schema],
    in_use: InUse,
    kinds: tuple[Kind, ...] = ("event", "action", "state"),
) -> None:
    """Raise SchemaError for a class that cannot read what is stored under its name."""
    known = {(s.kind, s.fingerprint) for s in stored.values()}
    for schema in wanted:
        if schema.kind in kinds and (schema.kind, schema.fingerprint) not in known:
            _check_against_stored(fleet, schema, stored, in_use)


def check_agents(fleet: FleetModel, engine: Engine) -> None:
    """Raise SchemaError if agents are stored that the fleet has no class for."""
    in_use = states_in_use(engine)
    for schema_id, schema in engine.catalog.schemas().items():
        gone = schema.kind == "state" and schema.name not in fleet.agents
        if gone and in_use(schema_id, schema):
            raise SchemaError(
                f"{schema.name} agents are stored, but fleet {fleet.name!r} has no agent "
                f"{schema.name}: keep the class, without handlers if it has nothing to do any more"
            )


def _check_against_stored(
    fleet: FleetModel, schema: Schema, stored: dict[int, Schema], in_use: InUse
) -> None:
    classes: dict[str, dict[str, type]] = {
        "event": dict(fleet.events),
        "action": dict(fleet.actions),
        "state": dict(fleet.agents),
    }
    cls = classes[schema.kind].get(schema.name)
    for schema_id, older in stored.items():
        if (older.kind, older.name) == (schema.kind, schema.name):
            try:
                check_successor(schema, older, cls is not None and hasattr(cls, "upcast"))
            except SchemaError:
                # A migration leaves old forms of a state behind that no agent has any more.
                if schema.kind != "state" or in_use(schema_id, older):
                    raise
