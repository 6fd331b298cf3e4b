"""Predicts how fast a run would be on other machines, what would limit it first, and where to place it."""
