"""When a timer is due, as `model.context` has it."""

import math

from holdfast.model.context import TIMER_SECONDS_MIN
from holdfast.stepping.compiled.kernels.arithmetic import most
from holdfast.stepping.compiled.kernels.jit import Unusual, inner


@inner
def due_at(now, way, when):
    """`way` 0 is after, 1 is at, 2 is every."""
    if not when >= (TIMER_SECONDS_MIN if way == 2 else 0.0) or when == math.inf:
        raise Unusual
    return most(when if way == 1 else now + when, now + TIMER_SECONDS_MIN)
