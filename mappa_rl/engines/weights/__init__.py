"""Sends the learner's new weights to an engine."""
