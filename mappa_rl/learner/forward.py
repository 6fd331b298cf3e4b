"""Log-probabilities of given tokens under a causal language model: the forward pass of all training."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mappa_rl.config import Optim
from mappa_rl.distributed import all_max, scattered
from mappa_rl.learner.attention import Kernel, Segments, kernel_of, packed_attention, recomputed
from mappa_rl.learner.critic import ValueHead
from mappa_rl.learner.lm_head import Head, score_logits
from mappa_rl.learner.packing import DUMMY, LOGITS_CHUNK, pack, split_by_tokens
from mappa_rl.types import Floats, PackedBatch, Sample

_WHOLE = {"cpu": 2**25, "cuda": 2**27}
"""Up to this many numbers, logits are not split into chunks, which are computed twice."""


class Scores(NamedTuple):
    """``logprobs`` [M] of the targets and ``entropy`` [M] in nats before them (fp32, with gradients).

    ``values`` [M]: the critic's value before each target (fp32, with gradient).
    """

    logprobs: Tensor
    entropy: Tensor
    values: Tensor | None = None


class Scorer(nn.Module):
    """Scores packed batches under ``model``; ``temperature`` divides the logits, as it did when sampling.

    Only scored rows get logits, and at most ``chunk`` numbers (rows times vocabulary) exist at once. A larger
    batch computes its hidden states first, then logits and softmax chunk by chunk, and recomputes them in the
    backward pass. The softmax is in fp32 for every model dtype. Of ``optim`` it reads ``attention``,
    ``autocast`` and ``gradient_checkpointing``, which keeps only the inputs of decoder layers.
    ``critic`` adds a value head on the last hidden states.
    """

    def __init__(
        self,
        model: nn.Module,
        optim: Optim,
        *,
        temperature: float,
        critic: bool = False,
        chunk: int | None = None,
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.temperature = temperature
        self._recompute, self._autocast = optim.gradient_checkpointing, optim.autocast
        self._head = Head(model)
        self._chunk = chunk
        self._attention: Kernel = optim.attention
        self.critic = ValueHead(model) if critic else None

    def forward(self, batch: PackedBatch) -> Scores:
        """The scores of the batch's M targets."""
        device = next(self.model.parameters()).device
        ids, positions, rows, targets = (
            torch.from_numpy(array).to(device)
            for array in (batch.ids, batch.position_ids, batch.rows, batch.targets)
        )
        inputs = {
            "input_ids": ids[None],
            "position_ids": positions[None],
            "use_cache": False,
            "segments": Segments.of(batch.cu_seqlens, device),
        }
        step = max(1, (self._chunk or LOGITS_CHUNK[device.type]) // self._head.vocabulary)
        whole = len(rows) * self._head.vocabulary <= (self._chunk or _WHOLE[device.type])
        chunks = 1 if whole else -(-len(rows) // step)
        if scattered(self.model):  # all processes must use each weight equally often
            chunks = all_max(chunks)
        kernel = kernel_of(self._attention, device, self.model.dtype)
        recompute = self._recompute and torch.is_grad_enabled()
        layers = recomputed(self.model, kernel) if recompute else nullcontext()
        with packed_attention(self.model, kernel):
            if chunks == 1 and self.critic is None:
                with layers, self._precision(device):
                    logits = self.model(**inputs, logits_to_keep=rows).logits.squeeze(0)
                return Scores(*score_logits(logits, targets, self.temperature))
            self._head.check(ids)
            with layers, self._precision(device):
                hidden = self._head.hidden(**inputs).squeeze(0)[rows]
        values = None if self.critic is None else self.critic(hidden)
        if chunks == 1:
            logprobs, entropy = self._part(hidden, targets)
            return Scores(logprobs, entropy, values)
        parts = [
            checkpoint(self._part, some, wanted, use_reentrant=False, preserve_rng_state=False)
            for some, wanted in zip(hidden.tensor_split(chunks), targets.tensor_split(chunks), strict=True)
        ]
        logprobs, entropy = (torch.cat(part) for part in zip(*parts, strict=True))
        return Scores(logprobs, entropy, values)

    def _part(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        with self._precision(hidden.device):
            logits = self._head.logits(hidden)
        return score_logits(logits, targets, self.temperature)

    def _precision(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, torch.bfloat16, enabled=self._autocast)


class Reference:
    """A frozen model that scores samples, for KL penalties. Several policies may share it."""

    def __init__(self, model: nn.Module, optim: Optim, *, temperature: float) -> None:
        self._scorer = Scorer(model.eval().requires_grad_(False), optim, temperature=temperature)
        self._budget = optim.tokens_per_micro_batch

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """One array [T] per sample, in order: log-probs of action tokens, 0 elsewhere."""
        return score(self._scorer, samples, self._budget)


def score(
    scorer: nn.Module,
    samples: Sequence[Sample],
    budget: int,
    *,
    together: bool = False,
    what: Literal["logprobs", "values"] = "logprobs",
) -> list[Floats]:
    """``what`` [T] of every sample's action tokens, 0 elsewhere, without gradients; ``budget`` in tokens.

    ``together``: all processes run the same number of forward passes, since each needs all of them (ZeRO 3).
    """
    out = [np.zeros(len(sample), np.float32) for sample in samples]
    parts = split_by_tokens([len(sample) for sample in samples], budget)
    for _ in range(all_max(len(parts)) - len(parts) if together else 0):
        with torch.no_grad():
            scorer(DUMMY)
    for chosen in parts:
        batch = pack([samples[i] for i in chosen], [samples[i].action_mask for i in chosen])
        with torch.no_grad():  # not inference mode: ZeRO 3 would later train on tensors gathered in it
            found = getattr(scorer(batch), what).cpu().numpy()
        ends = np.cumsum([int(samples[i].action_mask.sum()) for i in chosen])
        for i, values in zip(chosen, np.split(found, ends[:-1]), strict=True):
            out[i][samples[i].action_mask] = values
    return out
