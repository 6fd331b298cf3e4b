"""Fast digests of tensors, to compare what the trainer sent with what an engine received."""

from __future__ import annotations

import hashlib

import torch
import xxhash
from torch import Tensor

_WIDTH = 1024  # 8-byte words of a row


def digest(tensor: Tensor) -> str:
    """32 hexadecimal digits for a tensor's shape, dtype and bytes. Detects faults, not forgery.

    Compare only digests of two tensors in main memory, or of two tensors on devices. In main memory it is
    XXH3 (128 bits). On a device the bytes are folded first: 8-byte words in rows of 1024 are summed modulo
    2^64 along every row and every column; the bytes that do not fill a row are hashed directly. This detects
    every change within one row or one column, every changed byte and every exchange of two words. It misses
    changes in several rows and columns only if they cancel in every sum.
    """
    flat = tensor.detach().contiguous().view(-1).view(torch.uint8)
    found = xxhash.xxh3_128(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
    for part in [flat] if flat.device.type == "cpu" else _folded(flat):
        found.update(part.cpu().numpy().data)
    return found.hexdigest()


def _folded(flat: Tensor) -> list[Tensor]:
    if flat.data_ptr() % 8:
        flat = flat.clone()  # views of wider words need their alignment
    whole = flat.numel() // (8 * _WIDTH) * 8 * _WIDTH
    rows = flat[:whole].view(torch.int64).view(-1, _WIDTH)
    return [rows.sum(1), rows.sum(0), flat[whole:]]


def combined(digests: dict[str, str]) -> str:
    """One digest of all tensors and their names; their order does not matter."""
    lines = "\n".join(f"{name} {digests[name]}" for name in sorted(digests))
    return hashlib.blake2b(lines.encode(), digest_size=16).hexdigest()
