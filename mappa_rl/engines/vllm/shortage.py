"""What to change where vLLM has too little memory to start: read from what it said."""

from __future__ import annotations

import re

from mappa_rl.config import Config

_CACHE = re.compile(r"\(([\d.]+) GiB KV cache is needed[^(]*\(([\d.]+) GiB\)")
_NO_CACHE = "No available memory for the cache blocks"
_TAKEN = re.compile(r"Free memory on device \S+ \(([\d./]+) GiB\) on startup is less than desired")
_FULL = re.compile(r"Error\b.*(?:out of memory|can't allocate memory|Cannot allocate memory)")


def remedy(said: str, config: Config, *, on_cpu: bool) -> str | None:
    """Why memory did not suffice, and what to set; None if ``said`` does not speak of memory.

    ``said``: the error and the log of a vLLM 0.32 that did not start.
    """
    engine, rollout = config.engine, config.rollout
    room = (
        f"engine.kv_cache_mb={engine.kv_cache_mb}"
        if on_cpu
        else f"engine.memory_fraction={engine.memory_fraction:g}"
    )
    longest = f"a text of rollout.max_context={rollout.max_context} tokens"
    if (found := _CACHE.search(said)) is not None:
        needed, there = found.groups()
        sizes = f"{needed} GiB needed, {there} GiB there"
        return f"its key-value cache has no room for {longest} ({sizes}): raise {room}"
    if _NO_CACHE in said:
        return f"its weights leave no room for a key-value cache: raise {room}"
    if (found := _TAKEN.search(said)) is not None:
        return f"the GPU has too little free memory ({found[1]} GiB): lower {room}, or end what else uses it"
    if _FULL.search(said) is not None:
        return f"memory ran out: lower {room} or engine.max_num_seqs={engine.max_num_seqs}"
    return None
