"""What generated kernels import. Only they, and the tests, import numba through here."""
