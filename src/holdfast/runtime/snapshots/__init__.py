"""Snapshots of a whole fleet in a blob store: made while it runs, restored elsewhere."""
