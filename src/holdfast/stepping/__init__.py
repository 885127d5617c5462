"""Batch in, commit out. Pure: no clock, no randomness, no I/O; all of it is handed in as data."""
