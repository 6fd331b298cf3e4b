"""How long a text the hf engine can play as its model would: it knows full attention alone."""

from __future__ import annotations

import sys
from typing import Any

from mappa_rl.errors import EngineError

SERVED = {"full_attention", "sliding_attention"}


def positions(config: Any) -> int:
    """Positions that a model knows, from its ``config``; without a bound, for example ALiBi's, any number."""
    return int(getattr(config.get_text_config(), "max_position_embeddings", None) or sys.maxsize)


def longest_text(config: Any) -> int:
    """Tokens of the longest text, from a model's ``config``: within a window, attention is full.

    Raises EngineError for layers that are neither full nor windowed attention, and for soft-capped scores.
    """
    most, config = positions(config), config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or SERVED)
    if kinds - SERVED:
        raise EngineError(
            f"The hf engine serves attention only, full or within a window, not {sorted(kinds - SERVED)}; "
            "use engine.name=vllm."
        )
    if getattr(config, "attn_logit_softcapping", None):
        raise EngineError(
            "This model has soft-capped scores, which neither the hf engine nor the learner supports: choose "
            "another model."
        )
    window: int | None = getattr(config, "sliding_window", None)
    return min(most, window) if window and "sliding_attention" in kinds else most
