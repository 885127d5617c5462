"""Holdfast as a contender: what runs inside its own processes."""
