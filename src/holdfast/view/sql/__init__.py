"""Live SQL: questions in SQL about what a fleet has committed, or had at a time.

`queries` is the way in: `Queries` keeps what it has read, `answer` asks once. `picture` holds the
agents (`sheets`, from `rows`), `logs` events, actions and dead letters, `past` a fleet as it was.
The SQL of others is run by DuckDB in a process of its own: `jail` is that process, `statements`
what it lets through, `jailer` our side of it.
"""
