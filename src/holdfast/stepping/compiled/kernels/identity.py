"""Chance and ids, as `model.rng` and `model.context` have them: derived from fleet, class, key and
version of the agent, so that every execution of an event gets the same."""

import math

import numpy as np

from holdfast.stepping.compiled.kernels.jit import Unusual, inner
from holdfast.stepping.compiled.kernels.texts import (
    digits,
    joined,
    key_text,
    length,
    letter,
    room_for,
)

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


@inner
def _turn(x, by):
    return (x >> np.uint64(by)) | (x << np.uint64(64 - by))


@inner
def _mix(v, a, b, c, d, x, y):
    v[a] = v[a] + v[b] + x
    v[d] = _turn(v[d] ^ v[a], 32)
    v[c] = v[c] + v[d]
    v[b] = _turn(v[b] ^ v[c], 24)
    v[a] = v[a] + v[b] + y
    v[d] = _turn(v[d] ^ v[a], 16)
    v[c] = v[c] + v[d]
    v[b] = _turn(v[b] ^ v[c], 63)


@inner
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


@inner
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


@inner
def _bits(S, i, C):
    rng = C[4]
    if rng[1] == 0:
        _seed(C, i, S[i].version)
    rng[0] += np.uint64(0x9E3779B97F4A7C15)
    z = rng[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def draw(S, i, C):
    return float(_bits(S, i, C) >> np.uint64(11)) * 2.0**-53


@inner
def draw_uniform(S, i, C, low, high):
    return low + (high - low) * draw(S, i, C)


@inner
def draw_int(S, i, C, low, high):
    if low > high or high > 2**61 or low < -(2**61):
        raise Unusual
    bound = high - low + 1
    width = 0
    while (bound - 1) >> width:
        width += 1
    while True:
        # Signed: a number that is signed here and unsigned there becomes a float.
        drawn = np.int64(0)
        if width > 0:
            drawn = np.int64(_bits(S, i, C) >> np.uint64(64 - width))
        if drawn < bound:
            return low + drawn


@inner
def _logarithm(x):
    mantissa, exponent = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, exponent = mantissa * 2.0, exponent - 1
    t = (mantissa - 1.0) / (mantissa + 1.0)
    square, total = t * t, 0.0
    for odd in range(21, 0, -2):
        total = total * square + 1.0 / odd
    return 2.0 * t * total + exponent * 0.6931471805599453


@inner
def draw_gauss(S, i, C, mu, sigma):
    while True:
        x = 2.0 * draw(S, i, C) - 1.0
        y = 2.0 * draw(S, i, C) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return mu + sigma * x * math.sqrt(-2.0 * _logarithm(square) / square)


@inner
def new_id(S, i, C):
    C[0][3] += 1
    made = room_for(C, len(C[7]))
    for k in range(len(C[7])):
        if C[7][k] > 127:
            raise Unusual  # these are bytes, and an id has letters: a class is called Gerät
        C[6][(made >> 32) + k] = 47 if C[7][k] == 0 else C[7][k]  # NUL in a seed is / in an id
    made = joined(C, joined(C, made, key_text(C, i)), letter(C, 47))
    made = joined(C, joined(C, made, digits(C, S[i].version)), letter(C, 47))
    made = joined(C, joined(C, made, letter(C, 105)), letter(C, 100))
    return joined(C, made, digits(C, C[0][3]))
