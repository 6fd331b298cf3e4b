"""vLLM in Ray actors, on any node of a cluster. Needs the extra ``ray``."""
