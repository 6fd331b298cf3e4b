"""What follows from no size of a model: bytes and factors that were measured, on Linux with glibc.

Processes: their proportional size (PSS) in runs with SmolLM2-135M-Instruct on a CPU with two threads. Heap:
fitted to six layouts of benchmarks/memory_estimate.py, to passes over 10 layers of SmolLM2's widths, and to
replays of all its layers' allocations, by what the C library's ``mallinfo2`` says is free.
"""

from __future__ import annotations

MB = 1_000_000

PROCESS = 600 * MB
"""A run's process without a model: Python, torch, transformers, and vLLM where it is installed (590 MB)."""
HELPERS = 220 * MB
"""The processes that grade and run code, in all (MathChat: 104 and 115 MB)."""
ENGINE = 540 * MB
"""vLLM's process on a CPU without weights and cache, while it answers 32 requests (531 MB)."""
SCRATCH = 170 * MB
"""What a process's first passes leave behind, whatever the size of the model."""
HOLES = {False: 4, True: 15}
"""Free memory in the C library's heap at the peak: this times one feed-forward activation times the root of
the number of layers. False: without adapters; True: with them, whose layers make more short-lived tensors.
Small blocks that stay lie where large ones were, so that these do not fit there again."""
FROM_HEAP = 2**25
"""The C library takes larger blocks from the system and gives them back: they leave no holes."""
