"""How machines reach a fleet from outside: one folder per protocol."""
