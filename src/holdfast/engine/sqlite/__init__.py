"""The embedded engine: one directory, SQLite files, any number of processes on one machine.

fleet.db              the catalog: fleet, format, layout, schemas
holder.lock           held by whoever folds here
p000/inbox/*.seg      the inbox: a chain of segment files, the newest one open for appends
p000/state.db         head, base + deltas of states, outputs; written by the owner alone
p000/wake             a FIFO: appenders write a byte, the owner sleeps on it
p000/appended         how far the inbox was acknowledged, without a sync: tells of a lost WAL
p000/committed        the same for the commits of the state
p000/folding          the position at which user code runs now, for events that kill
"""
