"""Source topics: single events of foreign producers, re-routed to the inboxes exactly once.

    declaring    what a --source says: topic, agent, event, format, where to begin
    records      what topics hold, and the rows that it becomes
    decoding     records become rows for inboxes, or there is a reason why they cannot
    quick        the same for plain JSON, several times faster
    protobuf     values by the description that protoc wrote
    positions    where to begin in each partition, and the name under which it sends
    batching     the records that are sent, and then committed, together
    lease        for how long a member of the group may believe that it is one
    rerouting    rows to inboxes, numbered by their offsets, atomic for each inbox
    rejecting    what is no event, to the topic PREFIX.rejected
    reading      the member of the group: reads, re-routes, commits offsets, in this order
    starting     what `holdfast run --source` checks before it starts the process
    process      that process

It is at least once, and the dedupe of (source, number) makes it once: a record is sent under the
name of its topic and partition, with its offset as number, however often that has to be repeated.
"""
