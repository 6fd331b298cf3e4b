"""A folder per episode, and the history of its files."""
