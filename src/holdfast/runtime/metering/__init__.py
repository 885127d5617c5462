"""Metrics: what each process counts, how it tells the others, and the text that Prometheus reads.

`meter` counts commits, `vitals` a process, `board` is where processes publish, `exposition` merges
all of it with what views say. Handlers write none of it.
"""
