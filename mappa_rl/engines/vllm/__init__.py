"""Generation with vLLM, in separate processes."""
