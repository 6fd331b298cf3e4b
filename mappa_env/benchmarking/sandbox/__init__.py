"""Benchmarks of sandboxes: the cost and the leaks of an action in each backend."""
