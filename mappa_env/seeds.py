"""Derived seeds: the same parts give the same number on every machine and in every process."""

from __future__ import annotations

import hashlib


def derived_seed(*parts: object, bits: int = 63) -> int:
    """An integer of ``bits`` bits (8-64) that depends only on the string forms of ``parts``.

    Parts are joined by ``/``, so they must contain no slash. Recorded runs depend on the values, so they must
    never change.
    """
    size = -(-bits // 8)
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=size).digest()
    return int.from_bytes(digest, "little") >> (8 * size - bits)
