"""Instruments for trust, shipped with Holdfast: for agents, and in `conformance` for engines."""
