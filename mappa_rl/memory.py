"""Memory of a GPU or of the machine: whether a failure means that it ran out."""

from __future__ import annotations

import re

_SAID = re.compile(r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED", re.I)
"""By CUDA, by torch's allocator of main memory on Linux and elsewhere, and by cuBLAS."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` means that memory ran out.

    Torch raises OutOfMemoryError for its own pool on a GPU only; to import it costs commands two seconds.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and _SAID.search(str(error)) is not None
