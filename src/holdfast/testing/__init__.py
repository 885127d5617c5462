"""Instruments for trust, shipped with Holdfast: for agents, and in `conformance` for engines."""

from holdfast.testing.generating import generate_event, generate_stream
from holdfast.testing.harness import Harness, Message

__all__ = ["Harness", "Message", "generate_event", "generate_stream"]
