"""Replay: recorded inputs folded again, in the order they were folded first."""
