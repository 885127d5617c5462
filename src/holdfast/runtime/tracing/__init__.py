"""Traces: contexts that come with events, and spans of what was committed, for OpenTelemetry.

Contexts travel whether anybody exports spans or not; `exporting` is the only file that needs the
SDK.
"""
