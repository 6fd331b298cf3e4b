"""A language model as the coach: prompts, the client of its server, and how answers become verdicts."""
