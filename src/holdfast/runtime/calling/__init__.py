"""Calls on their way: from the table of open calls through a function of the user's to a reply.

`caller` is the loop, `lane` one function's queue, `breaker` its fuse, `answers` the way back to the
inboxes; `port` says what runs an attempt. Everything else here is for real processes: `processes`
and `coroutines` run attempts in children (`child` on our side, `host` on theirs, `wire` between
them), `driving` turns the loop, on a `thread` of `fleet.open` or in a `process` of `holdfast run`.
"""
