"""Imitation of a scripted team before reinforcement."""
