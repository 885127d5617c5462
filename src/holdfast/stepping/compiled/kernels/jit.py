"""How everything that a kernel calls is compiled, and the one exception that kernels raise."""

from typing import Any

from numba import njit

# numba does not tell of `_nrt`.
_compiled: Any = njit

# Without reference counts a kernel is ten times faster; nothing in it may allocate. Only kernels
# call these functions, so they need no way in from Python, which would take longer to compile.
inner = _compiled(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def entry(function: Any) -> Any:
    """What Python calls; other threads run meanwhile."""
    return entry_for(None)(function)


def entry_for(signature: Any) -> Any:
    """The same with the kinds of its arguments given: those of views that are not aligned."""

    def made(function: Any) -> Any:
        try:
            return _compiled(signature, nogil=True, cache=True, _nrt=False)(function)
        except RuntimeError:  # no folder to keep it in
            return _compiled(signature, nogil=True, _nrt=False)(function)

    return made


class Unusual(Exception):
    """Not for compiled code: this event is folded by the interpreter."""
