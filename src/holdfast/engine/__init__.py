"""Engines: where inboxes and states live. `port.py` is the contract, the adapters stand beside."""
