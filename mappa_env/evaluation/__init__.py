"""Plays models, scripted teams and baselines on environments, and ranks them."""
