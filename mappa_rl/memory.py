"""Memory of a GPU or of the machine: whether a failure means that it ran out, and what returns it."""

from __future__ import annotations

import ctypes
import gc
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


def give_back() -> None:
    """Return main memory to the system: what only cycles of references hold, and the heap's free pages.

    The C library keeps freed blocks for itself otherwise, while other processes need the memory. Only glibc
    can be asked for them.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
