"""What numba compiles. Nothing here is imported before a fleet with compiled agents folds."""
