"""gRPC: the verbs of the gateway by one published schema, `holdfast.proto`, and streams of events.

The same threads, tokens, bounds and refusals as over HTTP, in the same process.
"""
