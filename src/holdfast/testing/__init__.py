"""Instruments for trust, shipped with Holdfast: for agents, and in `conformance` for engines."""

from holdfast.testing.simulation.campaign import PromiseBroken, simulate

__all__ = ["PromiseBroken", "simulate"]
