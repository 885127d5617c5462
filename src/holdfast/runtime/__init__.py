"""The runtime: worker, relay, supervisor and the handles that users hold."""
