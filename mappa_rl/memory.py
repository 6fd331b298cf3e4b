"""How much memory and disk a run will take, before it: estimates from shapes, not measurements.

With P parameters of a model, T of them trained per policy, w bytes per weight (fp32 4, bf16 2), n policies of
which n_t are trained, and W processes that ZeRO deals its parts to (ZeRO: arXiv 1910.02054, section 3 and
figure 1; there w = 2 and K = 12):

    weights      n w P (adapters: w P + n w T), / W at stage 3
    reference    w P (adapters: 0, it is their base)
    gradients    w T, of one policy at a time; / W from stage 2 on
    optimizer    n_t K T, / W from stage 1 on; in main memory with ``offload``
                 K = 8, AdamW's two moments; from stage 1 on 12, with the fp32 copy that DeepSpeed keeps

For activations see ``activations``. Nothing is counted of buffers, fragments and the CUDA context: 1 to 3 GB.
"""

from __future__ import annotations

from dataclasses import dataclass

from mappa_rl.config import Config
from mappa_rl.policies import PolicyMap
from mappa_rl.shapes import Shape, adapter_parameters

CHUNK = {"cpu": 2**24, "cuda": 2**27}
"""Numbers of the logits that exist at once (``mappa_rl.scoring``)."""
HF_BATCH = 128
"""Requests that the hf engine continues at once."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on each GPU (or in the process, without one), and in main memory (``host``)."""

    weights: int
    reference: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    generation: int
    host: int
    apart: bool = False
    """Whether what generates keeps its memory while the learner learns."""

    @property
    def training(self) -> int:
        """All that there is at once in the learner's forward and backward passes."""
        return self.held + self.gradients + self.activations + self.logits

    @property
    def held(self) -> int:
        """What is there all the time."""
        return self.weights + self.reference + self.optimizer

    @property
    def peak(self) -> int:
        """The larger of training and generating where they take turns, else both."""
        if self.apart:
            return self.training + self.generation
        return max(self.training, self.held + self.generation)


def estimate(
    config: Config,
    shape: Shape,
    policies: PolicyMap,
    *,
    processes: int = 1,
    device: str = "cuda",
    engine_bytes: int = 0,
    engine_sleeps: bool = False,
    generates: bool = True,
) -> Memory:
    """The memory of one of ``processes``, each with a GPU of its own where ``device`` is ``cuda``.

    ``engine_bytes``: what engines apart from the learner take on the same GPU, their weights included (for
    vLLM its share of the GPU's memory); 0: the hf engine, which uses the learner's weights.
    ``engine_sleeps``: they give it back while the learner learns. ``generates`` False: engines are elsewhere.
    """
    optim = config.optim
    w = 2 if optim.dtype == "bf16" else 4
    trained = adapter_parameters(shape, config.lora) if policies.lora else shape.parameters
    count, learning, stage = len(policies.names), len(policies.trainable), optim.zero_stage
    weights = w * (shape.parameters + count * trained) if policies.lora else count * w * shape.parameters
    optimizer = learning * (12 if stage else 8) * trained // (processes if stage else 1)
    split = -(-trained // processes) if stage >= 2 else trained
    tokens = optim.tokens_per_micro_batch
    return Memory(
        weights=weights // processes if stage == 3 else weights,
        reference=0 if policies.lora else w * shape.parameters,
        gradients=w * split if learning else 0,
        optimizer=0 if optim.offload else optimizer,
        activations=activations(shape, tokens, w, optim.gradient_checkpointing),
        logits=3 * 4 * min(CHUNK[device], tokens * shape.vocabulary),
        generation=(engine_bytes or generation(config, shape, w)) if generates else 0,
        host=optimizer if optim.offload else 0,
        apart=engine_bytes > 0 and not engine_sleeps,
    )


def activations(shape: Shape, tokens: int, w: int, checkpointing: bool) -> int:
    """Bytes that one forward pass keeps for its backward pass, logits aside.

    Per token and layer, in numbers of w bytes, with the widths h (hidden), a (queries), k (keys) and m
    (feed-forward):
    6 h + 5 a + 4 k + 4 m in fp32; 8 h + 6 a + 5 k + 4 m in bf16, where norms and rotations keep fp32 copies.
    Counted in what torch saves for a Qwen3 of transformers with SDPA attention, whose memory is linear in
    tokens (arXiv 2205.14135). With checkpointing h per layer, and one layer's whole (arXiv 1604.06174).
    """
    h, a, k, m = shape.hidden, shape.attention, shape.keys, shape.mlp
    layer = 8 * h + 6 * a + 5 * k + 4 * m if w == 2 else 6 * h + 5 * a + 4 * k + 4 * m
    return tokens * w * (shape.layers * h + layer if checkpointing else shape.layers * layer)


def generation(config: Config, shape: Shape, w: int) -> int:
    """Bytes of the hf engine's key-value cache where every request grows to ``rollout.max_context``."""
    rollout = config.rollout
    together = min(HF_BATCH, -(-rollout.episodes_per_step // rollout.groups))
    return together * rollout.max_context * shape.layers * 2 * shape.keys * w


def checkpoint_bytes(config: Config, shape: Shape, policies: PolicyMap) -> int:
    """One checkpoint of all trained policies: what is trained, its optimizer's state, and a Hugging Face
    folder with the whole model."""
    w = 2 if config.optim.dtype == "bf16" else 4
    trained = adapter_parameters(shape, config.lora) if policies.lora else shape.parameters
    k = 12 if config.optim.zero_stage else 8
    return len(policies.trainable) * ((w + k) * trained + w * shape.parameters)
