"""Fast digests of tensors, to compare what the trainer sent with what an engine received."""

from __future__ import annotations

import hashlib

import torch
import xxhash
from torch import Tensor

_WIDTH = 1024  # 8-byte words of a row
_PIECE = 2**18  # numbers; a MB in fp32 stays in the second-level cache of most processors


def digest(tensor: Tensor) -> str:
    """32 hexadecimal digits for a tensor's shape, dtype and bytes. Detects faults, not forgery.

    Compare only digests of two tensors in main memory, or of two tensors on devices. In main memory it is
    XXH3 (128 bits). On a device the bytes are folded first: 8-byte words in rows of 1024 are summed modulo
    2^64 along every row and every column; the bytes that do not fill a row are hashed directly. This detects
    every change within one row or one column, every changed byte and every exchange of two words. It misses
    changes in several rows and columns only if they cancel in every sum.
    """
    flat, found = tensor.detach().contiguous().view(-1).view(torch.uint8), _begun(tensor)
    for part in [flat] if flat.device.type == "cpu" else _folded(flat):
        found.update(part.cpu().numpy().data)
    return found.hexdigest()


def copied(source: Tensor, target: Tensor) -> str:
    """Copy ``source`` into ``target``, contiguous and in main memory; returns ``digest`` of what was copied.

    The digest is not of ``target`` but of ``source`` in its dtype. Piece by piece, so that the processor's
    cache still holds what is read twice: together they take 1.3 times as long as the copy alone.
    """
    flat, found = source.detach().contiguous().view(-1), _begun(target)
    for mine, theirs in zip(torch.split(flat, _PIECE), torch.split(target.view(-1), _PIECE), strict=True):
        piece = mine.to(theirs)  # itself, where dtype and device are the same
        found.update(piece.view(torch.uint8).numpy().data)
        theirs.copy_(piece)
    return found.hexdigest()


def _begun(tensor: Tensor) -> xxhash.xxh3_128:
    return xxhash.xxh3_128(f"{tuple(tensor.shape)} {tensor.dtype}".encode())


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
