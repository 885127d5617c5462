"""How everything that a kernel calls is compiled, and the one exception that kernels raise."""

from typing import Any, cast

from numba import njit

# Without reference counts a kernel is ten times faster; nothing in it may allocate. Only kernels
# call these functions, so they need no way in from Python, which would take longer to compile.
inner = cast(Any, njit)(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


class Unusual(Exception):
    """Not for compiled code: this event is folded by the interpreter."""
