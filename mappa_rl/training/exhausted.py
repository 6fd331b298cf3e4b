"""A full disk, or memory that runs out: one sentence with the remedy. Nothing that was saved is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mappa_rl.config.run_folder import CONFIG
from mappa_rl.disk import is_full
from mappa_rl.errors import EngineMemoryError, MappaRLError, RunError
from mappa_rl.memory import is_out_of_memory


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Raise RunError where the block fails because the disk of ``out``, or memory, is full."""
    try:
        yield
    except Exception as error:
        begun = (out / CONFIG).is_file()
        resume = f"then resume with `mappa-rl train --resume {out}`" if begun else "then start the run again"
        if isinstance(error, EngineMemoryError):
            raise RunError(f"{error}, {resume}.") from error
        if isinstance(error, MappaRLError):
            raise
        if is_out_of_memory(error):
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise RunError(
                f"Memory ran out ({said[:300]}): lower optim.tokens_per_micro_batch, engine.memory_fraction "
                f"or engine.max_num_seqs, or set optim.gradient_checkpointing=true, {resume}."
            ) from error
        if not is_full(error, out):
            raise
        raise RunError(
            f"The disk of {out} is full: free some space, {resume}. What was saved before is intact."
        ) from error
