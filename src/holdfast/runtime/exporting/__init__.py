"""Export: events, states and actions of a fleet, copied to where other programs read them.

`reading` and `states` read what is committed, `columns` says which columns that makes, a target
(`ndjson`, `parquet`, `postgres`) keeps rows and place together, and `exporter` moves them along.
"""
