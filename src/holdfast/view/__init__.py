"""Views: what a fleet has committed, in forms that are easy to ask."""
