"""Instruments for trust, shipped with Holdfast: for agents, and in `conformance` for engines."""

from holdfast.testing.generating import generate_event, generate_stream
from holdfast.testing.harness import Harness, MadeCall, Message
from holdfast.testing.simulation.campaign import PromiseBroken, simulate

__all__ = [
    "Harness",
    "MadeCall",
    "Message",
    "PromiseBroken",
    "generate_event",
    "generate_stream",
    "simulate",
]
