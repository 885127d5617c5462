"""Engines: where inboxes and states live. `port.py` is the contract, every other file an adapter."""
