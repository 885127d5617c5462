"""How machines reach a fleet over the network. It keeps nothing: what it took is in an inbox."""
