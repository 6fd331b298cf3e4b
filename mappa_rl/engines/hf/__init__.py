"""Generation with transformers, in the learner's process."""
