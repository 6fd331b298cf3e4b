"""What a coach will cost, before a run."""
