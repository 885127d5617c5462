"""Compiled folding: kernels, and what drives them."""
