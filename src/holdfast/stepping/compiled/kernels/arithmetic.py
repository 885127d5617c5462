"""Python's arithmetic for compiled handlers: the same value to the last bit, or `Unusual`.

Every function either returns what CPython returns or raises. Whoever folds undoes that one event
and runs it interpreted, so nothing here has to know which error Python would raise, nor how large
its integers can become.
"""

import math

import numpy as np
from numba import njit

HALF = 2**62 - 1
EXACT = 2**53  # up to here every integer is a float
_SMALLEST = 2.2250738585072014e-308
_SPLIT = 134217729.0  # 2**27 + 1


class Unusual(Exception):
    """Not for compiled code: this event is folded by the interpreter."""


@njit(_nrt=False)
def add(a, b):
    # Checked before: the compiler may assume that a signed sum does not overflow.
    if not (-HALF <= a <= HALF and -HALF <= b <= HALF):
        raise Unusual
    return a + b


@njit(_nrt=False)
def subtract(a, b):
    if not (-HALF <= a <= HALF and -HALF <= b <= HALF):
        raise Unusual
    return a - b


@njit(_nrt=False)
def multiply(a, b):
    if not -9.2e18 < float(a) * float(b) < 9.2e18:
        raise Unusual
    return a * b


@njit(_nrt=False)
def negate(a):
    if a == -(2**63):
        raise Unusual
    return -a


@njit(_nrt=False)
def exact(a):
    """An integer as a float, if that loses nothing."""
    if a > EXACT or a < -EXACT:
        raise Unusual
    return float(a)


@njit(_nrt=False)
def divide(a, b):
    if b == 0.0:
        raise Unusual
    return a / b


@njit(_nrt=False)
def whole_divide(a, b):
    if b == 0 or b == -1:
        if b == 0:
            raise Unusual
        return negate(a)
    return a // b


@njit(_nrt=False)
def whole_modulo(a, b):
    if b == 0:
        raise Unusual
    if b == -1:
        return 0
    return a % b


@njit(_nrt=False)
def modulo(a, b):
    if b == 0.0:
        raise Unusual
    rest = np.fmod(a, b)
    if rest:
        if (b < 0.0) != (rest < 0.0):
            rest += b
        return rest
    return math.copysign(0.0, b)


@njit(_nrt=False)
def floor_divide(a, b):
    if b == 0.0:
        raise Unusual
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    if rest and (b < 0.0) != (rest < 0.0):
        quotient -= 1.0
    if not quotient:
        return math.copysign(0.0, a / b)
    floored = np.floor(quotient)
    if quotient - floored > 0.5:
        floored += 1.0
    return floored


@njit(_nrt=False)
def whole_power(a, b):
    if b < 0:
        raise Unusual
    result = 1
    while b > 0:
        if b & 1:
            result = multiply(result, a)
        b >>= 1
        if b:
            a = multiply(a, a)
    return result


@njit(_nrt=False)
def power(a, b, one):
    """`one` is 1.0, read from memory: a compiler that knew the exponent would not call pow."""
    if not (math.isfinite(a) and math.isfinite(b)):
        raise Unusual
    if (a == 0.0 and b < 0.0) or (a < 0.0 and b != math.floor(b)):
        raise Unusual
    result = math.pow(a, b * one)
    if not math.isfinite(result):
        raise Unusual
    return result


@njit(_nrt=False)
def truncate(a):
    """int(a), also math.trunc."""
    if not (-9.2e18 < a < 9.2e18):
        raise Unusual
    return int(a)


@njit(_nrt=False)
def floor(a):
    if not (-9.2e18 < a < 9.2e18):
        raise Unusual
    return int(math.floor(a))


@njit(_nrt=False)
def ceil(a):
    if not (-9.2e18 < a < 9.2e18):
        raise Unusual
    return int(math.ceil(a))


@njit(_nrt=False)
def nearest(a):
    """round(a): halves go to the even neighbour."""
    if not (-4.5e15 < a < 4.5e15):
        raise Unusual
    below = math.floor(a)
    rest = a - below
    result = int(below)
    if rest > 0.5 or (rest == 0.5 and result & 1):
        result += 1
    return result


@njit(_nrt=False)
def finite(result):
    """What a function of `math` returned; where it is no number Python may raise."""
    if not math.isfinite(result):
        raise Unusual
    return result


@njit(_nrt=False)
def sqrt(a):
    if a < 0.0:
        raise Unusual
    return math.sqrt(a)


@njit(_nrt=False)
def _square(x):
    big = x * x
    t = x * _SPLIT
    high = t - (t - x)
    low = x - high
    return big, ((high * high - big) + 2.0 * high * low) + low * low


@njit(_nrt=False)
def hypot(a, b):
    a, b = abs(a), abs(b)
    most = a if a > b else b
    if math.isinf(a) or math.isinf(b):
        return math.inf
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if most == 0.0:
        return most
    exponent = math.frexp(most)[1]
    if exponent < -1023:
        raise Unusual
    scale = math.ldexp(1.0, -exponent)
    total, first, second = 1.0, 0.0, 0.0
    for x in (a * scale, b * scale):
        high, low = _square(x)
        summed = total + high
        second += (total - summed) + high
        total = summed
        first += low
    h = math.sqrt(total - 1.0 + (first + second))
    high, low = _square(h)
    high, low = -high, -low
    summed = total + high
    second += (total - summed) + high
    total = summed
    first += low
    x = total - 1.0 + (first + second)
    h += x / (2.0 * h)
    return h / scale
