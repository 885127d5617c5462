"""Compiled agents: from the handlers of a class to the text of one module of plain loops."""
