"""Log-probabilities of given tokens under a causal language model: the one forward pass of all training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mappa_rl.attention import packed_attention
from mappa_rl.packing import pack, split_by_tokens
from mappa_rl.types import Floats, PackedBatch, Sample

_CHUNK = 2**24  # fp32 numbers of one softmax: 64 MB


class Scores(NamedTuple):
    """``logprobs`` [M] of the targets (fp32, with gradient) and ``entropy`` [M] in nats (without)."""

    logprobs: Tensor
    entropy: Tensor


class Scorer(nn.Module):
    """Scores packed batches under ``model``; ``temperature`` divides the logits, as it did when sampling.

    Logits exist for scored rows alone. The softmax is in fp32 whatever the model's dtype.
    """

    def __init__(self, model: nn.Module, temperature: float = 1.0) -> None:
        super().__init__()
        self.model: Any = model
        self.temperature = temperature

    def forward(self, batch: PackedBatch) -> Scores:
        device = next(self.model.parameters()).device
        ids, positions, rows, targets = (
            torch.from_numpy(array).to(device)
            for array in (batch.ids, batch.position_ids, batch.rows, batch.targets)
        )
        with packed_attention(self.model):
            logits = self.model(
                input_ids=ids[None],
                position_ids=positions[None],
                use_cache=False,
                segments=np.diff(batch.cu_seqlens).tolist(),
                logits_to_keep=rows,
            ).logits[0]
        step = max(1, _CHUNK // logits.shape[-1])
        if len(rows) <= step:
            return Scores(*_score(logits, targets, self.temperature))
        parts = [  # recomputed in the backward pass, so that only one chunk's softmax is in memory
            checkpoint(_score, some, wanted, self.temperature, use_reentrant=False)
            for some, wanted in zip(logits.split(step), targets.split(step), strict=True)
        ]
        return Scores(*(torch.cat(part) for part in zip(*parts, strict=True)))


class Reference:
    """A frozen model that scores samples, for KL penalties. One may serve several policies."""

    def __init__(
        self, model: nn.Module, *, temperature: float = 1.0, tokens_per_micro_batch: int = 8192
    ) -> None:
        self._scorer = Scorer(model.eval().requires_grad_(False), temperature)
        self._budget = tokens_per_micro_batch

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """One array [T] per sample, in order: log-probs of action tokens, 0 elsewhere."""
        return score(self._scorer, samples, self._budget)


def score(scorer: nn.Module, samples: Sequence[Sample], budget: int) -> list[Floats]:
    """Log-probs [T] of every sample's action tokens, 0 elsewhere, without gradients; ``budget`` in tokens."""
    out = [np.zeros(len(sample), np.float32) for sample in samples]
    for chosen in split_by_tokens([len(sample) for sample in samples], budget):
        batch = pack([samples[i] for i in chosen], [samples[i].action_mask for i in chosen])
        with torch.inference_mode():
            found = scorer(batch).logprobs.cpu().numpy()
        ends = np.cumsum([int(samples[i].action_mask.sum()) for i in chosen])
        for i, values in zip(chosen, np.split(found, ends[:-1]), strict=True):
            out[i][samples[i].action_mask] = values
    return out


def _score(logits: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    logp = F.log_softmax(logits.float() / temperature, dim=-1)
    with torch.no_grad():
        entropy = -(logp.exp() * logp).sum(-1)
    return logp.gather(1, targets[:, None])[:, 0], entropy
