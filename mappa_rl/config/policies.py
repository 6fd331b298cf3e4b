"""The map from agents to policies."""

from __future__ import annotations

from typing import Literal

from mappa_rl.config.base import Positive, Section


class Policies(Section):
    """Which policy (a set of trainable weights) plays which agent."""

    map: Literal["separate", "shared", "lora"] | dict[str, str] = "separate"
    """``separate``: one policy per agent; ``shared``: one for all; ``lora``: one LoRA adapter per agent; or a
    mapping agent -> policy name."""
    frozen: list[str] = []
    """Policies, or single agents, that play without training."""
    models: dict[str, str] = {}
    """Policy -> the model that it starts as, with its own tokenizer: a folder, or the Hugging Face id of a
    downloaded model. It has no warm start. The other policies start as ``model.kind``."""
    lr: dict[str, Positive] = {}
    """Policy -> its peak learning rate, if it differs from ``optim.lr``."""
