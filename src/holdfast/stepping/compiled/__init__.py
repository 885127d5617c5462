"""Compiled agents: rows of one table, folded by a kernel; the rare cases on lent cells."""
