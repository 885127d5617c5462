"""Read models: derived from what is committed, never the truth itself."""
