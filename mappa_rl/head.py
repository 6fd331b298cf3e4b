"""From hidden states to logits: a causal language model cut in two, so that logits can be made in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mappa_rl.attention import Segments
from mappa_rl.errors import LearnerError

_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 2e-3}


class Head:
    """The decoder of ``model`` and, apart from it, its output layer with what its config does to logits.

    Known: tied and untied heads, ``final_logit_softcapping`` (Gemma), ``logits_scaling`` (Granite, divides),
    ``logit_scale`` (Cohere, multiplies). Whatever else a model does is found by ``check``.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        config: Any = self._model.config.get_text_config()
        self.vocabulary: int = config.vocab_size
        self._cap = getattr(config, "final_logit_softcapping", None)
        self._factor = getattr(config, "logit_scale", None) or 1.0
        self._divisor = getattr(config, "logits_scaling", None) or 1.0
        self._checked = False

    def hidden(self, **inputs: Any) -> Tensor:
        """Last hidden states [1, N, width] of the decoder."""
        states: Tensor = self._model.get_decoder()(**inputs).last_hidden_state
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., vocabulary] of hidden states [..., width], as the model itself would give them."""
        logits: Tensor = self._model.get_output_embeddings()(hidden)
        if self._divisor != 1:
            logits = logits / self._divisor
        if self._factor != 1:
            logits = logits * self._factor
        if self._cap is not None:
            logits = torch.tanh(logits / self._cap) * self._cap
        return logits

    def check(self, ids: Tensor) -> None:
        """Compare with the model's own logits of two tokens, once. Raises ``LearnerError`` if they differ."""
        if self._checked:
            return
        inputs = {
            "input_ids": ids[None, :2],
            "position_ids": torch.arange(len(ids[:2]), device=ids.device)[None],
            "use_cache": False,
            "segments": Segments.of(np.array([0, len(ids[:2])], np.int32), ids.device),
        }
        with torch.no_grad():
            own = self._model(**inputs).logits.float()
            found = self.logits(self.hidden(**inputs)).float()
        same = own.shape == found.shape
        gap = float((own - found).abs().max()) if same else float("inf")
        if not gap <= _TOLERANCE[self._model.dtype] * float(own.abs().max()):
            raise LearnerError(
                f"Logits of {type(self._model).__name__} are off by {gap:.2g} when its output layer is "
                "applied apart: the model changes them in a way that mappa_rl.head does not know. "
                "Add the rule to Head.logits, or choose another model."
            )
        self._checked = True
