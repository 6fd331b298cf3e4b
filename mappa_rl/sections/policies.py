"""Who plays: the policies, their model, and the engine that samples their replies."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mappa_rl.sections.base import Count, Positive, Section


class Policies(Section):
    """Which agent is played by which trainable weights."""

    map: Literal["separate", "shared", "lora"] | dict[str, str] = "separate"
    """One policy per agent, one for all, one LoRA adapter per agent, or a mapping agent -> policy name."""
    frozen: list[str] = []
    """Policies, or single agents, that play but are not trained."""
    lr: dict[str, Positive] = {}
    """Peak learning rates of single policies, where they differ from ``optim.lr``."""


class Lora(Section):
    """The adapters of ``policies.map: lora``: each adds B A alpha / rank to frozen weights that all share."""

    rank: Count = 16
    """Rank of the update: rows of A, columns of B."""
    alpha: Count = 32
    """The update's factor is ``alpha / rank``."""
    targets: Annotated[list[str], Field(min_length=1)] = [
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    ]  # fmt: skip
    """Names of the linear layers that are updated."""


class Model(Section):
    """The policies' model. All keys but ``kind`` and ``max_len`` matter for ``kind: tiny`` alone."""

    kind: str = "tiny"
    """``tiny``: a random Qwen3 with a tokenizer trained on the demonstrations; else a model folder, or the
    Hugging Face id of a model that was downloaded before."""
    hidden: Count = 128
    """Width."""
    layers: Count = 2
    """Number of layers."""
    heads: Count = 4
    """Attention heads."""
    kv_heads: Count = 2
    """Key-value heads; must divide ``heads``."""
    head_dim: Count = 32
    """Width of a head."""
    mlp: Count = 256
    """Inner width of the feed-forward block."""
    init: Positive = 0.08
    """Standard deviation of the random weights."""
    rope_theta: Positive = 1000.0
    """Base of the rotary position encoding."""
    vocab_size: Annotated[int, Field(ge=261)] = 320
    """Tokens of the trained vocabulary, at most; all bytes and five special tokens are in it."""
    tokenizer_style: Literal["math", "code"] = "math"
    """How text is cut before merging: ``math`` isolates symbols, ``code`` keeps dotted names whole."""
    max_len: Count = 512
    """Longest sequence of the model, in tokens."""

    @model_validator(mode="after")
    def _heads(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"model.kv_heads={self.kv_heads} must divide model.heads={self.heads}.")
        return self


class Engine(Section):
    """What samples the policies' replies (docs/training.md). All keys but ``name`` matter for vllm alone."""

    name: Literal["hf", "vllm"] = "hf"
    """``hf``: the learner's own module, in its process; ``vllm``: vLLM, in processes of its own."""
    dtype: Literal["learner", "fp32", "bf16"] = "learner"
    """Precision of the engine's weights; ``learner``: that of ``optim.dtype``."""
    tensor_parallel: Count = 1
    """Workers that a model is split over, each with a GPU of its own."""
    devices: list[Annotated[int, Field(ge=0)]] = []
    """GPUs of the engine, as CUDA numbers them; empty: the learner's own."""
    memory_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.4
    """Share of a GPU's memory that all engines on it take together."""
    kv_cache_mb: Count = 256
    """MiB of keys and values that an engine keeps on a CPU, where ``memory_fraction`` does not count."""
    max_num_seqs: Count = 128
    """Most requests that an engine answers at once."""
    sleep: bool = False
    """Give the GPU's memory back while the learner learns; needs a GPU."""
