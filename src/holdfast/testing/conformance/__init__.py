"""Shipped tests: what somebody who writes an engine for Holdfast runs against it. Needs pytest."""

import pytest

# Before anything of it is imported, so that a failed assertion shows the values it compared.
_TOPICS = "workbench appends admissions stamps commits views claims rescales"
for _topic in _TOPICS.split():
    pytest.register_assert_rewrite(f"holdfast.testing.conformance.{_topic}")

from holdfast.testing.conformance.kit import EngineConformance  # noqa: E402
from holdfast.testing.conformance.workbench import FLEET  # noqa: E402

__all__ = ["FLEET", "EngineConformance"]
