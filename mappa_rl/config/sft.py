"""Supervised learning during reinforcement learning."""

from __future__ import annotations

from mappa_rl.config.base import NotNegative, Section


class SFT(Section):
    """Supervised learning during reinforcement learning."""

    corrections_coef: NotNegative = 0.0
    """Weight of a token of a corrected action, relative to a sampled one; needs a coach that corrects."""
