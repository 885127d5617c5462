"""Lists: a room of fixed size, and how many items of it are in use."""

import numpy as np

from holdfast.stepping.compiled.kernels.arithmetic import add
from holdfast.stepping.compiled.kernels.jit import Unusual, inner

NO_INTS = np.zeros(1, np.int64)
NO_FLOATS = np.zeros(1, np.float64)


@inner
def least_of(room, count):
    if count == 0:
        raise Unusual
    found = room[0]
    for k in range(1, count):
        if room[k] < found:
            found = room[k]
    return found


@inner
def most_of(room, count):
    if count == 0:
        raise Unusual
    found = room[0]
    for k in range(1, count):
        if room[k] > found:
            found = room[k]
    return found


@inner
def sum_of(room, count):
    total = 0
    for k in range(count):
        total = add(total, room[k])
    return total


@inner
def holds(room, count, item):
    if item != item:  # Python takes a NaN that is the very object for equal
        raise Unusual
    for k in range(count):
        if room[k] == item:
            return True
    return False


@inner
def item(at, count):
    if at < 0:
        at += count
    if at < 0 or at >= count:
        raise Unusual
    return at


@inner
def append(room, count, value):
    if count >= len(room):
        raise Unusual
    room[count] = value
    return count + 1


@inner
def put_list(room, most, values, count):
    if count > most:
        raise Unusual
    for k in range(count):
        room[k] = values[k]
    return count


@inner
def take_out(room, count, at):
    for k in range(at, count - 1):
        room[k] = room[k + 1]
    return count - 1
