"""A run's processes on the nodes of a Ray cluster. Needs the extra ``ray``."""
