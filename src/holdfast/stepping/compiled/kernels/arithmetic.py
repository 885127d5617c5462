"""Python's arithmetic for compiled handlers: the same value to the last bit, or `Unusual`.

Every function either returns what CPython returns or raises. Whoever folds undoes that one event
and runs it interpreted, so nothing here has to know which error Python would raise, nor how large
its integers can become.
"""

import math

import numpy as np

from holdfast.stepping.compiled.kernels.jit import Unusual, inner

HALF = 2**62 - 1
EXACT = 2**53  # up to here every integer is a float
_TENS = np.array([float(10**k) for k in range(23)])  # all exact
_SPLIT = 134217729.0  # 2**27 + 1


@inner
def add(a, b):
    # Checked before: the compiler may assume that a signed sum does not overflow.
    if not (-HALF <= a <= HALF and -HALF <= b <= HALF):
        raise Unusual
    return a + b


@inner
def subtract(a, b):
    if not (-HALF <= a <= HALF and -HALF <= b <= HALF):
        raise Unusual
    return a - b


@inner
def multiply(a, b):
    if not -9.2e18 < float(a) * float(b) < 9.2e18:
        raise Unusual
    return a * b


@inner
def negate(a):
    if a == -(2**63):
        raise Unusual
    return -a


@inner
def exact(a):
    """An integer as a float, if that loses nothing."""
    if a > EXACT or a < -EXACT:
        raise Unusual
    return float(a)


@inner
def divide(a, b):
    if b == 0.0:
        raise Unusual
    return a / b


@inner
def whole_divide(a, b):
    if b == 0 or b == -1:
        if b == 0:
            raise Unusual
        return negate(a)
    return a // b


@inner
def whole_modulo(a, b):
    if b == 0:
        raise Unusual
    if b == -1:
        return 0
    return a % b


@inner
def modulo(a, b):
    if b == 0.0:
        raise Unusual
    rest = np.fmod(a, b)
    if rest:
        if (b < 0.0) != (rest < 0.0):
            rest += b
        return rest
    return math.copysign(0.0, b)


@inner
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


@inner
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


@inner
def power(a, b, one):
    """`one` is 1.0, read from memory: a compiler that knew base or exponent would not call pow."""
    if not (math.isfinite(a) and math.isfinite(b)):
        raise Unusual
    if (a == 0.0 and b < 0.0) or (a < 0.0 and b != math.floor(b)):
        raise Unusual
    result = math.pow(a * one, b * one)
    if not math.isfinite(result):
        raise Unusual
    return result


@inner
def truncate(a):
    """int(a), also math.trunc."""
    if not (-9.2e18 < a < 9.2e18):
        raise Unusual
    return int(a)


@inner
def floor(a):
    if not (-9.2e18 < a < 9.2e18):
        raise Unusual
    return int(math.floor(a))


@inner
def ceil(a):
    if not (-9.2e18 < a < 9.2e18):
        raise Unusual
    return int(math.ceil(a))


@inner
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


@inner
def finite(result):
    """What a function of `math` returned; where it is no number Python may raise."""
    if not math.isfinite(result):
        raise Unusual
    return result


@inner
def sqrt(a):
    if a < 0.0:
        raise Unusual
    return math.sqrt(a)


@inner
def _square(x):
    big = x * x
    t = x * _SPLIT
    high = t - (t - x)
    low = x - high
    return big, ((high * high - big) + 2.0 * high * low) + low * low


@inner
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


@inner
def rounded(a, digits):
    """round(a, digits): the exact value to the nearest decimal, a half to the even one, and that
    decimal to the nearest float."""
    if not (math.isfinite(a) and 0 <= digits <= 22):
        raise Unusual
    ten = _TENS[digits]
    if abs(a) * ten >= 2.0**51 or abs(a) >= 2.0**900:
        raise Unusual
    if abs(a) * ten < 0.25:
        return math.copysign(0.0, a)
    size = abs(a)  # below zero `rest` would not be exact
    high = size * ten
    x, y = _split(size), _split(ten)
    low = ((x[0] * y[0] - high) + x[0] * y[1] + x[1] * y[0]) + x[1] * y[1]
    whole = math.floor(high)
    rest = high - whole
    # `high + low` is the exact product; of `low` only the sign matters, and only at a half.
    up = rest > 0.5 or (rest == 0.5 and (low > 0.0 or (low == 0.0 and int(whole) & 1 == 1)))
    return math.copysign((whole + (1.0 if up else 0.0)) / ten, a)


@inner
def _split(x):
    t = x * _SPLIT
    high = t - (t - x)
    return high, x - high


@inner
def rounded_whole(a, digits):
    if digits < 0:
        raise Unusual
    return a


@inner
def shift_left(a, b):
    if b < 0 or b > 62 or a > (2**62 >> b) or a < -(2**62 >> b):
        raise Unusual
    return a << b


@inner
def shift_right(a, b):
    if b < 0:
        raise Unusual
    return a >> (63 if b > 63 else b)


@inner
def magnitude(a):
    return negate(a) if a < 0 else a


@inner
def fmod(a, b):
    if b == 0.0:
        raise Unusual
    return finite(np.fmod(a, b))


@inner
def copysign(a, b):
    """The sign of a NaN is nobody's business, and compilers do not keep it."""
    if math.isnan(b):
        raise Unusual
    return math.copysign(a, b)


@inner
def known(a):
    """True, unless it is no number."""
    if math.isnan(a):
        raise Unusual
    return True


@inner
def least(a, b):
    return b if b < a else a


@inner
def most(a, b):
    return b if b > a else a


@inner
def steps(first, last, by):
    """How often `range` goes round."""
    if by == 0 or not (-HALF < first < HALF and -HALF < last < HALF and -HALF < by < HALF):
        raise Unusual
    if by > 0:
        return (last - first - 1) // by + 1 if last > first else 0
    return (first - last - 1) // -by + 1 if last < first else 0
