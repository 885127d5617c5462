"""What tests of engines share."""

import pytest

from tests.engine.sites import site

__all__ = ["site"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file on a slow engine says which tests of the kit it leaves to `make soak`, by name."""
    for item in items:
        module = getattr(item, "module", None)
        left: frozenset[str] = getattr(module, "LEFT_TO_SOAK", frozenset())
        if item.name in left or getattr(item, "originalname", None) in left:
            item.add_marker(pytest.mark.soak)
