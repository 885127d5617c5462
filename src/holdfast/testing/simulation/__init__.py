"""Deterministic simulation: the real worker, relay and supervisor in virtual time, under faults."""
