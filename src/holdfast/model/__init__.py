"""What a user writes: events, actions, agents, handlers, and the fleet that holds them.

Pure: no clock, no randomness from outside, no files, no network. Where the events come from and how
they are folded lives in `stepping`, `engine` and `runtime`, none of which this folder imports.
"""
