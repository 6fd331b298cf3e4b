"""Held-out episodes, before and after, with honest intervals."""
