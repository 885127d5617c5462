"""Texts: a number that says where it begins in the scratch memory, and in its lower half how long
it is. The scratch memory is forgotten with the event."""

from holdfast.stepping.compiled.kernels.jit import Unusual, inner


@inner
def length(text):
    return text & 0xFFFFFFFF


@inner
def room_for(C, count):
    """A piece of the scratch memory, which is forgotten with the event."""
    first = C[0][11]
    if first + count > len(C[6]):
        raise Unusual
    C[0][11] = first + count
    return first << 32 | count


@inner
def take_text(C, room, count):
    made = room_for(C, count)
    for k in range(count):
        C[6][(made >> 32) + k] = room[k]
    return made


@inner
def put_text(room, most, C, text):
    if length(text) > most:
        raise Unusual
    for k in range(length(text)):
        room[k] = C[6][(text >> 32) + k]
    return length(text)


@inner
def same_text(C, a, b):
    if length(a) != length(b):
        return False
    for k in range(length(a)):
        if C[6][(a >> 32) + k] != C[6][(b >> 32) + k]:
            return False
    return True


@inner
def joined(C, a, b):
    made = room_for(C, length(a) + length(b))
    at = made >> 32
    for k in range(length(a)):
        C[6][at + k] = C[6][(a >> 32) + k]
    at += length(a)
    for k in range(length(b)):
        C[6][at + k] = C[6][(b >> 32) + k]
    return made


@inner
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


@inner
def letter(C, code):
    made = room_for(C, 1)
    C[6][made >> 32] = code
    return made


@inner
def key_text(C, i):
    first = C[3][i]
    made = room_for(C, C[3][i + 1] - first)
    for k in range(length(made)):
        C[6][(made >> 32) + k] = C[2][first + k]
    return made


@inner
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


@inner
def cut(text, first, last):
    """text[first:last], where the letters are already."""
    count = length(text)
    if first < 0:
        first = max(first + count, 0)
    if last < 0:
        last = max(last + count, 0)
    first, last = min(first, count), min(last, count)
    return ((text >> 32) + first) << 32 | max(last - first, 0)


@inner
def order_of(C, a, b):
    """Below, at or above 0 as a is before, equal to or after b."""
    for k in range(min(length(a), length(b))):
        one, other = C[6][(a >> 32) + k], C[6][(b >> 32) + k]
        if one != other:
            return -1 if one < other else 1
    return length(a) - length(b)


@inner
def begins(C, text, beginning):
    return length(text) >= length(beginning) and same_text(
        C, cut(text, 0, length(beginning)), beginning
    )


@inner
def ends(C, text, end):
    count = length(text)
    return count >= length(end) and same_text(C, cut(text, count - length(end), count), end)


@inner
def contains(C, text, part):
    for first in range(length(text) - length(part) + 1):
        if same_text(C, cut(text, first, first + length(part)), part):
            return True
    return False
