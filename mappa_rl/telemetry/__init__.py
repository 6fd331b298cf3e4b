"""What is measured and shown during a run."""
