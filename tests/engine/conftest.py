"""What tests of engines share."""

from tests.engine.sites import site

__all__ = ["site"]
