"""Means with intervals, paired differences, pass@k and majorities."""
