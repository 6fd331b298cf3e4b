"""From hidden states to logits, log-probs and entropy, in pieces that bound memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mappa_rl.errors import LearnerError
from mappa_rl.learner.attention import Segments

_BLOCK = {"cpu": 2**17, "cuda": 2**24}
"""Numbers in one block of rows (fp32: 512 KB, of which three fit a CPU core's cache; 64 MB)."""

_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 2e-3}


class Head:
    """The decoder of ``model`` and, separately, its output layer.

    Supports tied and untied heads, ``final_logit_softcapping`` (Gemma), ``logits_scaling`` (Granite, divides)
    and ``logit_scale`` (Cohere, multiplies). ``check`` finds models that do anything else.
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
        """Logits [..., vocabulary] of hidden states [..., width], equal to the model's own."""
        logits: Tensor = self._model.get_output_embeddings()(hidden)
        if self._divisor != 1:
            logits = logits / self._divisor
        if self._factor != 1:
            logits = logits * self._factor
        if self._cap is not None:
            logits = torch.tanh(logits / self._cap) * self._cap
        return logits

    def check(self, ids: Tensor) -> None:
        """Compare logits of two tokens with the model's, once. Raises LearnerError if they differ."""
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
                "applied separately: mappa_rl.learner.lm_head does not support how the model changes them. "
                "Add the rule to Head.logits, or choose another model."
            )
        self._checked = True


class Likelihood(torch.autograd.Function):
    """logits [M, V] (fp32) and targets [M] -> log-probs [M] of the targets and entropy [M], with gradients.

    All numbers equal those of ``log_softmax`` and ``gather`` bit for bit, and so does the gradient where only
    the log-probs are used. Their passes would write four matrices as large as the logits. This writes two
    (the log-probs, and the gradient); the others exist one block of rows at a time. The entropy H of a row of
    log-probs p has the gradient ``-exp(p_j) (p_j + H)``.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probs [M] and entropy [M]."""
        logp = torch.empty_like(logits)
        entropy = logits.new_empty(len(logits))
        scratch = _scratch(logits)
        for rows in _blocks(logits):
            torch.log_softmax(logits[rows], -1, out=logp[rows])
            part = scratch[: len(logp[rows])]
            torch.sum(torch.exp(logp[rows], out=part).mul_(logp[rows]), -1, out=entropy[rows])
        entropy.neg_()
        ctx.save_for_backward(logp, targets, entropy)
        ctx.set_materialize_grads(False)
        return logp.gather(1, targets[:, None]).squeeze(1), entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, of_entropy: Tensor | None) -> tuple[Tensor, None]:
        """The gradient [M, V] of the logits; None stands for an output that nothing depends on."""
        logp, targets, entropy = ctx.saved_tensors
        scratch = _scratch(logp).zero_()
        if gradient is None:
            out = torch.zeros_like(logp)
        else:
            out = torch.empty_like(logp)
            for rows in _blocks(logp):
                part, at = scratch[: len(logp[rows])], targets[rows, None]
                part.scatter_(1, at, gradient[rows, None])
                torch._log_softmax_backward_data(part, logp[rows], 1, logp.dtype, out=out[rows])
                part.scatter_(1, at, 0.0)
        if of_entropy is not None:
            for rows in _blocks(logp):
                part = torch.exp(logp[rows], out=scratch[: len(logp[rows])]).mul_(of_entropy[rows, None])
                out[rows].addcmul_(part, logp[rows] + entropy[rows, None], value=-1.0)
        return out, None


def score_logits(logits: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """``Likelihood`` of logits divided by ``temperature``, computed in fp32."""
    logits = logits.float() if temperature == 1 else logits.float() / temperature  # avoid large copies
    untyped: Any = Likelihood
    logprobs, entropy = untyped.apply(logits, targets)
    return logprobs, entropy


def _blocks(matrix: Tensor) -> Iterator[slice]:
    step = _rows(matrix)
    for start in range(0, len(matrix), step):
        yield slice(start, start + step)


def _rows(matrix: Tensor) -> int:
    return max(1, _BLOCK[matrix.device.type] // matrix.size(1))


def _scratch(matrix: Tensor) -> Tensor:
    return matrix.new_empty(min(_rows(matrix), len(matrix)), matrix.size(1))
