"""The MQTT bridge: plain devices publish events, and get the actions of their agents.

    address      what an mqtt:// URL says
    table        which topic is which event, and which action goes where
    packets      messages out of the bytes of a connection
    wire         the socket of a connection, read and written in large pieces
    connection   one connection: paho for everything but the messages that come
    link         keeps a connection, on a thread of its own
    payloads     JSON, msgpack and CBOR
    decoding     messages become rows for inboxes, or there is a reason why they cannot
    batching     rows as parcels: which go together, so that a device stays in order
    appending    parcels to inboxes, until all are durable
    rejecting    what is no event, in a bounded file
    keeping      the folder of a bridge: who works, how far the actions are
    commanding   actions to the topics of their devices
    bridge       all of it: take, append, reject, then acknowledge
    starting     what is checked before a bridge starts
    process      the bridge beside `holdfast run`

Nothing is acknowledged to the broker before it is durable, so what a crash leaves open comes again.
A device that numbers its messages is deduplicated by its inbox, one that does not may be doubled.
"""
