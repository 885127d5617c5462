import math

import numpy as np
from numba import njit

from holdfast.stepping.compiled.kernels.arithmetic import *  # noqa: F403
from holdfast.stepping.compiled.kernels.arithmetic import (
    Unusual,
    add,
    finite,
    negate,
)


@njit(_nrt=False)
def shift_left(a, b):
    if b < 0 or b > 62 or a > (2**62 >> b) or a < -(2**62 >> b):
        raise Unusual
    return a << b


@njit(_nrt=False)
def shift_right(a, b):
    if b < 0:
        raise Unusual
    return a >> (63 if b > 63 else b)


@njit(_nrt=False)
def magnitude(a):
    return negate(a) if a < 0 else a


@njit(_nrt=False)
def fmod(a, b):
    if b == 0.0:
        raise Unusual
    return finite(np.fmod(a, b))


@njit(_nrt=False)
def least(a, b):
    return b if b < a else a


@njit(_nrt=False)
def most(a, b):
    return b if b > a else a


@njit(_nrt=False)
def least_of(room, count):
    if count == 0:
        raise Unusual
    found = room[0]
    for k in range(1, count):
        if room[k] < found:
            found = room[k]
    return found


@njit(_nrt=False)
def most_of(room, count):
    if count == 0:
        raise Unusual
    found = room[0]
    for k in range(1, count):
        if room[k] > found:
            found = room[k]
    return found


@njit(_nrt=False)
def sum_of(room, count):
    total = 0
    for k in range(count):
        total = add(total, room[k])
    return total


@njit(_nrt=False)
def holds(room, count, item):
    for k in range(count):
        if room[k] == item:
            return True
    return False


@njit(_nrt=False)
def item(at, count):
    if at < 0:
        at += count
    if at < 0 or at >= count:
        raise Unusual
    return at


@njit(_nrt=False)
def step(by):
    if by == 0:
        raise Unusual
    return by


@njit(_nrt=False)
def append(room, count, value):
    if count >= len(room):
        raise Unusual
    room[count] = value
    return count + 1


@njit(_nrt=False)
def put_list(room, most, values, count):
    if count > most:
        raise Unusual
    for k in range(count):
        room[k] = values[k]
    return count


# A text is a number: where it begins in the scratch memory, and in the lower half its length.


@njit(_nrt=False)
def length(text):
    return text & 0xFFFFFFFF


@njit(_nrt=False)
def room_for(C, count):
    """A piece of the scratch memory, which is forgotten with the event."""
    first = C[0][11]
    if first + count > len(C[6]):
        raise Unusual
    C[0][11] = first + count
    return first << 32 | count


@njit(_nrt=False)
def take_text(C, room, count):
    made = room_for(C, count)
    for k in range(count):
        C[6][(made >> 32) + k] = room[k]
    return made


@njit(_nrt=False)
def put_text(room, most, C, text):
    if length(text) > most:
        raise Unusual
    for k in range(length(text)):
        room[k] = C[6][(text >> 32) + k]
    return length(text)


@njit(_nrt=False)
def same_text(C, a, b):
    if length(a) != length(b):
        return False
    for k in range(length(a)):
        if C[6][(a >> 32) + k] != C[6][(b >> 32) + k]:
            return False
    return True


@njit(_nrt=False)
def joined(C, a, b):
    made = room_for(C, length(a) + length(b))
    at = made >> 32
    for k in range(length(a)):
        C[6][at + k] = C[6][(a >> 32) + k]
    at += length(a)
    for k in range(length(b)):
        C[6][at + k] = C[6][(b >> 32) + k]
    return made


@njit(_nrt=False)
def digits(C, number):
    if number < -(2**62):
        raise Unusual
    negative = 1 if number < 0 else 0
    if negative:
        number = -number
    count = 1
    rest = number
    while rest > 9:
        rest //= 10
        count += 1
    made = room_for(C, count + negative)
    at = made >> 32
    for k in range(count + negative - 1, negative - 1, -1):
        C[6][at + k] = 48 + number % 10
        number //= 10
    if negative:
        C[6][at] = 45
    return made


@njit(_nrt=False)
def key_text(C, i):
    first = C[3][i]
    made = room_for(C, C[3][i + 1] - first)
    for k in range(length(made)):
        C[6][(made >> 32) + k] = C[2][first + k]
    return made


@njit(_nrt=False)
def put_key(room, C, key):
    if not 1 <= length(key) <= 128:
        raise Unusual
    for k in range(length(key)):
        c = C[6][(key >> 32) + k]
        alnum = 48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122
        if not (alnum or (k > 0 and (c == 46 or c == 95 or c == 58 or c == 45))):
            raise Unusual
        room[k] = c
    return length(key)


@njit(_nrt=False)
def due_at(now, way, when):
    if not when >= (0.001 if way == 2 else 0.0) or when == math.inf:
        raise Unusual
    due = when if way == 1 else now + when
    return max(due, now + 0.001)


# Identity: the seed of `ctx.random` and `ctx.new_id`.

_IV = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    np.uint64,
)
_SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.int64,
)
_MASK32 = np.uint64(0xFFFFFFFF)


@njit(_nrt=False)
def _turn(x, by):
    return (x >> np.uint64(by)) | (x << np.uint64(64 - by))


@njit(_nrt=False)
def _mix(v, a, b, c, d, x, y):
    v[a] = v[a] + v[b] + x
    v[d] = _turn(v[d] ^ v[a], 32)
    v[c] = v[c] + v[d]
    v[b] = _turn(v[b] ^ v[c], 24)
    v[a] = v[a] + v[b] + y
    v[d] = _turn(v[d] ^ v[a], 16)
    v[c] = v[c] + v[d]
    v[b] = _turn(v[b] ^ v[c], 63)


@njit(_nrt=False)
def _compress(h, v, m, length, last):
    for k in range(8):
        v[k] = h[k]
        v[k + 8] = _IV[k]
    v[12] ^= np.uint64(length)
    if last:
        v[14] = ~v[14]
    for turn in range(12):
        s = _SIGMA[turn % 10]
        _mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]])
        _mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]])
        _mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]])
        _mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]])
        _mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]])
        _mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]])
        _mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]])
        _mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]])
    for k in range(8):
        h[k] ^= v[k] ^ v[k + 8]


@njit(_nrt=False)
def _seed(C, i, version):
    """blake2b of fleet, class, key and version, as `model.rng` has it."""
    rng = C[4]
    h, v, m = rng[2:10], rng[10:26], rng[26:42]
    number = digits(C, version)
    first = C[3][i]
    key_length = C[3][i + 1] - first
    prefix = len(C[7])
    total = prefix + key_length + 1 + length(number)
    for k in range(8):
        h[k] = _IV[k]
    h[0] ^= np.uint64(0x01010008)
    done = 0
    while True:
        for k in range(16):
            m[k] = 0
        count = min(128, total - done)
        for k in range(count):
            at = done + k
            if at < prefix:
                byte = np.uint64(C[7][at])
            elif at < prefix + key_length:
                byte = np.uint64(C[2][first + at - prefix])
            elif at == prefix + key_length:
                byte = np.uint64(0)
            else:
                byte = np.uint64(C[6][(number >> 32) + at - prefix - key_length - 1])
            m[k >> 3] |= byte << np.uint64(8 * (k & 7))
        done += count
        _compress(h, v, m, done, done == total)
        if done == total:
            break
    swapped = np.uint64(0)
    for k in range(8):
        swapped = (swapped << np.uint64(8)) | ((h[0] >> np.uint64(8 * k)) & np.uint64(255))
    rng[0] = swapped
    rng[1] = 1


@njit(_nrt=False)
def _bits(S, i, C):
    rng = C[4]
    if rng[1] == 0:
        _seed(C, i, S[i].version)
    rng[0] += np.uint64(0x9E3779B97F4A7C15)
    z = rng[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(_nrt=False)
def draw(S, i, C):
    return float(_bits(S, i, C) >> np.uint64(11)) * 2.0**-53


@njit(_nrt=False)
def draw_uniform(S, i, C, low, high):
    return low + (high - low) * draw(S, i, C)


@njit(_nrt=False)
def draw_int(S, i, C, low, high):
    if low > high or high > 2**61 or low < -(2**61):
        raise Unusual
    bound = high - low + 1
    width = 0
    while (bound - 1) >> width:
        width += 1
    while True:
        drawn = 0
        if width > 0:
            drawn = int(_bits(S, i, C) >> np.uint64(64 - width))
        if drawn < bound:
            return low + drawn


@njit(_nrt=False)
def _logarithm(x):
    mantissa, exponent = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, exponent = mantissa * 2.0, exponent - 1
    t = (mantissa - 1.0) / (mantissa + 1.0)
    square, total = t * t, 0.0
    for odd in range(21, 0, -2):
        total = total * square + 1.0 / odd
    return 2.0 * t * total + exponent * 0.6931471805599453


@njit(_nrt=False)
def draw_gauss(S, i, C, mu, sigma):
    while True:
        x = 2.0 * draw(S, i, C) - 1.0
        y = 2.0 * draw(S, i, C) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return mu + sigma * x * math.sqrt(-2.0 * _logarithm(square) / square)


@njit(_nrt=False)
def letter(C, code):
    made = room_for(C, 1)
    C[6][made >> 32] = code
    return made


@njit(_nrt=False)
def new_id(S, i, C):
    C[0][3] += 1
    made = room_for(C, len(C[7]))
    for k in range(len(C[7])):
        C[6][(made >> 32) + k] = 47 if C[7][k] == 0 else C[7][k]  # NUL in a seed is / in an id
    made = joined(C, joined(C, made, key_text(C, i)), letter(C, 47))
    made = joined(C, joined(C, made, digits(C, S[i].version)), letter(C, 47))
    made = joined(C, joined(C, made, letter(C, 105)), letter(C, 100))
    return joined(C, made, digits(C, C[0][3]))
