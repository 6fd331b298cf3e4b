"""The state machine of an episode: turns, prompts, execution, verdicts and rewards."""
