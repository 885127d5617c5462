"""Shipped tests: what somebody who writes an engine or a store of objects runs against it.

Needs pytest.
"""

import pkgutil

import pytest

from holdfast.errors import UsageError

if not __debug__:
    # Pytest rewrites `assert` into code that survives -O, but not with --assert=plain, and nobody
    # would notice: everything passes.
    raise UsageError(
        "the conformance kit is made of assert statements, and python -O leaves them out: "
        "run it without -O and without PYTHONOPTIMIZE"
    )

# Before anything of it is imported, so that a failed assertion shows the values it compared.
for _topic in pkgutil.iter_modules(__path__):
    pytest.register_assert_rewrite(f"holdfast.testing.conformance.{_topic.name}")

from holdfast.testing.conformance.blobs import BlobConformance  # noqa: E402
from holdfast.testing.conformance.kit import EngineConformance  # noqa: E402
from holdfast.testing.conformance.workbench import FLEET  # noqa: E402

__all__ = ["FLEET", "BlobConformance", "EngineConformance"]
