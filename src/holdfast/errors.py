"""Everything that can go wrong, as one tree.

    HoldfastError
    ├── YourBug            the program or the command is wrong: change it
    │   ├── DefinitionError    a class of events, actions or agents cannot be used as written
    │   ├── SchemaError        classes do not fit the data that is stored
    │   ├── UsageError         a call or a command with wrong arguments
    │   └── NotYet             a part of the design that this release does not have
    ├── TheirBug           the data is not what we wrote: restore it
    │   ├── DamagedData        a checksum, a length or a counter does not fit
    │   └── NewerFormat        written by a newer release
    ├── TryAgain           nothing is wrong for ever: the same call may succeed later
    │   ├── Backlog            the inbox is full: the fleet folds slower than you send
    │   ├── Busy               somebody else holds a lock, or too much waits
    │   ├── TimedOut           the answer did not come in time
    │   ├── ClockJumped        the clock ran ahead of time: nothing is stamped until it is right
    │   ├── Rescaling          the fleet is given another number of partitions at this moment
    │   ├── DiskFull           no space left, or less than the reserve
    │   └── Unreachable        a store of objects or a broker does not answer
    └── GiveUp             the same call will never succeed
        ├── Fenced             another worker owns the partition now
        ├── InUse              the directory is held by another process
        ├── WrongFleet         the data belongs to another fleet
        ├── OutdatedCode       newer classes have written here
        ├── TooOld             a sequence number below the dedupe window
        ├── OutOfOrder         a gap in a source opened with ordered=True
        ├── TooManySources     the bounded table of sources is full
        ├── AskFailed          the agent did not answer, and will not
        ├── AccessDenied       a store of objects or a broker does not let us in
        └── Missing            no object or topic of that name

Every message says what happened, where, and what to do.
"""


class HoldfastError(Exception):
    """The root: `except HoldfastError` catches all of ours and nothing else."""


class YourBug(HoldfastError):
    pass


class DefinitionError(YourBug, TypeError):
    pass


class SchemaError(YourBug):
    pass


class UsageError(YourBug, ValueError):
    pass


class NotYet(YourBug):
    pass


class TheirBug(HoldfastError):
    pass


class DamagedData(TheirBug):
    pass


class NewerFormat(TheirBug):
    pass


class TryAgain(HoldfastError):
    pass


class Backlog(TryAgain):
    pass


class Busy(TryAgain):
    pass


class TimedOut(TryAgain, TimeoutError):
    pass


class ClockJumped(TryAgain):
    pass


class Rescaling(TryAgain):
    pass


class DiskFull(TryAgain):
    pass


class Unreachable(TryAgain):
    pass


class GiveUp(HoldfastError):
    pass


class Fenced(GiveUp):
    pass


class InUse(GiveUp):
    pass


class WrongFleet(GiveUp):
    pass


class OutdatedCode(GiveUp):
    pass


class TooOld(GiveUp):
    pass


class OutOfOrder(GiveUp):
    pass


class TooManySources(GiveUp):
    pass


class AskFailed(GiveUp):
    pass


class AccessDenied(GiveUp):
    pass


class Missing(GiveUp):
    pass
