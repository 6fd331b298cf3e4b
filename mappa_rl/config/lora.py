"""The shape of the policies' adapters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mappa_rl.config.base import Count, Section


class Lora(Section):
    """The adapters of ``policies.map: lora``: each adds B A alpha / rank to shared frozen weights."""

    rank: Count = 16
    """Rank of the update: rows of A, columns of B."""
    alpha: Count = 32
    """The update is multiplied by ``alpha / rank``."""
    targets: Annotated[list[str], Field(min_length=1)] = [
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    ]
    """Names of the linear layers that get an adapter."""
