"""Memory that a process gives back."""

from __future__ import annotations

import psutil

from mappa_rl.memory import give_back

BLOCKS, SIZE = 100_000, 1000


class Held:
    """Many blocks of the C library's heap, which only a cycle keeps."""

    def __init__(self) -> None:
        self.itself = self
        self.blocks = [bytes(SIZE) for _ in range(BLOCKS)]


def test_what_only_cycles_keep_goes_back_to_the_system() -> None:
    held = Held()
    after = bytes(SIZE)  # in the heap above them, so that freeing alone cannot shrink it
    del held
    before = psutil.Process().memory_info().rss
    give_back()
    assert before - psutil.Process().memory_info().rss > BLOCKS * SIZE / 2
    assert len(after) == SIZE
