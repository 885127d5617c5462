"""Marks in annotations: the most that a text or a list holds, which gives it a fixed width."""

import msgspec


def Width(characters: int) -> msgspec.Meta:
    """`name: Annotated[str, Width(16)]`: at most 16 characters."""
    return msgspec.Meta(max_length=characters)


def Length(items: int) -> msgspec.Meta:
    """`track: Annotated[list[float], Length(8)]`: at most 8 items."""
    return msgspec.Meta(max_length=items)
