"""The Kafka engine: topics are the truth, local SQLite files are copies of them.

    catalog topic    which fleet, which partitions, which schemas
    inbox topic      what was sent, as frames; appended by producers and by commits
    changelog topic  every commit and every claim of a partition, written by its owner alone
    bases topic      the newest base copy of each partition, unless a store has them
    owners topic     where owners answer readers, and which are full; it decides nothing

Every process that folds a partition follows inbox and changelog into a *mirror*: an inbox and a
state as the SQLite engine has them (mirror.py). Readers ask the owner, and make a mirror only where
nobody answers. Positions, dedupe and stamps are a function
of the inbox topic alone, so all mirrors of a partition are equal, and a mirror that is lost is
made anew. An owner is a follower whose transactions the brokers accept.
"""
