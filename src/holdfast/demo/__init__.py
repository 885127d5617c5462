"""The demo: a delivery fleet, a kill -9 in the middle, and an audit of what is stored."""
