"""Traces: recorded episodes, one JSON line per action."""
