"""`holdfast check`: what in a fleet's code would make two runs of the same events differ.

`sources`, `naming`, `rules` and the files beside them read the code; `recording`, `running` and
`comparing` fold the same events in two processes that differ in all that must not matter.
"""
