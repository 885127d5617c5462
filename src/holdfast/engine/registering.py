"""What of the schemas that a program brings along a catalog has to write down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from holdfast.model.schema import Schema
from holdfast.model.types import canonical


def to_write(
    schemas: Sequence[Schema], stored: Mapping[int, Schema], renew: bool
) -> Sequence[Schema]:
    """Those that are new; with `renew`, also those whose options are not what is stored."""
    known = _written(stored.values())
    given = _written(schemas)
    return [
        schema
        for schema in schemas
        if schema.fingerprint not in known
        or (renew and known[schema.fingerprint] != given[schema.fingerprint])
    ]


def _written(schemas: Iterable[Schema]) -> dict[str, str]:
    """Options by fingerprint, as they are stored: what comes back from there has other types."""
    return {
        schema.fingerprint: canonical(json.loads(json.dumps(dict(schema.options))))
        for schema in schemas
    }
