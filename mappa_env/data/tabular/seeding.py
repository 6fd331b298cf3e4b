"""Seeds of generated tasks, derived from a salt that no sandbox contains.

A task is the same on every machine. Code without the salt cannot draw its rows again, not even with a copy
of the generators.
"""

from __future__ import annotations

import hashlib

SALT = "5f0c8d1e97b24a63a8f1d3507c6e42b90d7a1c55e3f84e26b1097ad2c4685f3b"
"""Belongs to version 0 of the cards; another salt makes other tasks, and needs a new version of them."""


def seed_of(*parts: object) -> int:
    """256 bits for ``numpy.random.default_rng``, fixed by ``parts`` and the salt."""
    text = "/".join([SALT, *map(str, parts)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
