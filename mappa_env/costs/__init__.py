"""Estimates the cost of a coach before a run."""
