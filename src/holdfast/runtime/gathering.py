"""When a worker lets events gather before its next commit, and for how long.

A commit writes every agent it changed once, however many events changed it: where each event finds
an agent of its own, two commits made one are little more work than one of them. It costs
latency, so a worker pauses only where the senders gather thousands of events themselves. The sends
tell that, and a pause does not change them; were it the size of commits that tells, a pause would
make the next commit large, and that the next pause, at any even load.
"""

from __future__ import annotations

EVENTS_PER_SEND = 1_500  # of senders that gather themselves
EVENTS_PER_CHANGED_AGENT = 4  # where a commit has more, each is written seldom enough
PAUSE_SECONDS = 0.01
GATHER_SECONDS = 0.03  # where several sends came since the commit before
INTERVAL_SECONDS_MAX = 1.0  # of the setting: a worker that sleeps longer is taken for a dead one


def pause(events: int, sends: int, agents: int, took: float) -> float:
    """After a commit of so many events from so many sends, which changed so many agents.

    As long as the work was: a producer that waits for each of its sends to be folded should not
    wait much longer. Where several sends came in one pause nobody does that, and it is twice as
    long.
    """
    if events < EVENTS_PER_SEND * max(1, sends) or events > EVENTS_PER_CHANGED_AGENT * agents:
        return 0.0
    return min(GATHER_SECONDS, 2 * took) if sends > 1 else min(PAUSE_SECONDS, took)
