"""The contract: one module per group of promises, each holding the evidence against it."""
