"""How much memory and disk a run will take, before it: estimates from shapes, not measurements.

With P parameters of a model, T of them trained per policy, w bytes per weight (fp32 4, bf16 2), n trained
policies, and W processes that ZeRO deals its parts to (ZeRO: arXiv 1910.02054, section 3 and figure 1; there
w = 2 and K = 12):

    weights      n w P (adapters: w P + n w T), / W at stage 3
    reference    w P, the start, where something is compared with it or a policy is not trained (adapters: 0,
                 it is their base)
    gradients    w T, of one policy at a time; / W at stage 2; n w T / W at stage 3, which keeps their memory
    optimizer    n K T, / W from stage 1 on; in main memory with ``offload``
                 K = 8, AdamW's two moments; from stage 1 on 12, with the fp32 copy that DeepSpeed keeps
    buffers      of at most B numbers for gradients that are reduced together, and at stage 3 the weights that
                 are whole for the moment (see ``_buffers``)

For activations see ``activations``. Nothing is counted of the CUDA context, 1 to 3 GB. On a CPU the heap has
free blocks that do not fit what is asked for: ``FRAGMENTS``.
"""

from __future__ import annotations

from dataclasses import dataclass

from mappa_rl.config import Config
from mappa_rl.distributed import REDUCE_BUCKET
from mappa_rl.engines.hf.queue import HF_MAX_BATCH
from mappa_rl.engines.weights.base import MOST_TRANSFERS
from mappa_rl.learner.packing import LOGITS_CHUNK
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import Shape, adapter_parameters
from mappa_rl.training.compared import compares

FRAGMENTS = {False: 1.0, True: 1.75}
"""Free memory in the C library's heap (glibc) at the peak, as a multiple of activations: without adapters,
and with them, whose layers make more short-lived tensors. Measured (benchmarks/memory_estimate.py)."""
_GATHERED = 10**9  # DeepSpeed's stage3_max_live_parameters


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on each GPU (or in the process, without one), and in main memory (``host``)."""

    weights: int
    reference: int
    gradients: int
    optimizer: int
    buffers: int
    activations: int
    logits: int
    fragments: int
    generation: int
    transfer: int
    """What sending one policy's weights to its engine takes on the way."""
    start: int
    """The most that there is before the first step."""
    host: int
    apart: bool = False
    """Whether what generates keeps its memory while the learner learns."""

    @property
    def training(self) -> int:
        """All that there is at once in the learner's forward and backward passes."""
        passes = self.activations + self.logits + self.fragments
        return self.held + self.gradients + self.buffers + passes

    @property
    def held(self) -> int:
        """What is there all the time."""
        return self.weights + self.reference + self.optimizer

    @property
    def peak(self) -> int:
        """The largest of starting, training and generating where they take turns, else both of these."""
        generating = self.held + self.generation + self.transfer
        together = self.training + self.generation if self.apart else self.training
        return max(self.start, together, generating)


def estimate(
    config: Config,
    shape: Shape,
    policies: PolicyMap,
    *,
    processes: int,
    device: str = "cuda",
    engine_bytes: int = 0,
    generates: bool = True,
) -> Memory:
    """The memory of one of ``processes``, each with a GPU of its own where ``device`` is ``cuda``.

    ``engine_bytes``: what engines apart from the learner take on the same GPU, their weights included (for
    vLLM its fraction of the GPU's memory); 0: the hf engine, which uses the learner's weights. With
    ``engine.sleep`` they give it back while the learner learns. ``generates`` False: engines are elsewhere.
    """
    optim = config.optim
    w = 2 if optim.dtype == "bf16" else 4
    adapters, stage = policies.lora, optim.zero_stage
    trained = adapter_parameters(shape, config.lora) if adapters else shape.parameters
    count, learning = len(policies.names), len(policies.trainable)
    parts = processes if stage == 3 else 1
    weights = w * (shape.parameters + count * trained) if adapters else learning * w * trained // parts
    kept = not adapters and (compares(config) or learning < count)
    reference = w * shape.parameters if kept else 0
    optimizer = learning * (12 if stage else 8) * trained // (processes if stage else 1)
    gradients = w * -(-trained // (processes if stage >= 2 else 1))
    masters = learning * 4 * trained // processes if stage and not optim.offload else 0
    # DeepSpeed moves weights into buffers of its own; a CPU's heap keeps what each policy leaves behind.
    left = w * trained * (learning if device == "cpu" else 1)
    moved = {0: 0, 3: learning * gradients + weights}.get(stage, left)
    tokens = optim.tokens_per_micro_batch
    kept_for_backward = activations(shape, tokens, w, optim.gradient_checkpointing)
    sent = w * shape.parameters if config.engine.name == "vllm" and not adapters else 0
    return Memory(
        weights=weights,
        reference=reference,
        gradients=gradients * (learning if stage == 3 else min(learning, 1)),
        optimizer=0 if optim.offload else optimizer,
        buffers=_buffers(stage, shape.parameters, trained, processes, learning) * w,
        activations=kept_for_backward,
        logits=3 * 4 * min(LOGITS_CHUNK[device], tokens * shape.vocabulary),
        fragments=int(FRAGMENTS[adapters] * kept_for_backward) if device == "cpu" else 0,
        generation=(engine_bytes or generation(config, shape, w)) if generates else 0,
        transfer=sent // (MOST_TRANSFERS // 2 - 1),
        start=weights + reference + masters + moved,
        host=(optimizer if optim.offload else 0) + count * sent,
        apart=engine_bytes > 0 and not config.engine.sleep,
    )


def _buffers(stage: int, parameters: int, trained: int, processes: int, learning: int) -> int:
    """Numbers in DeepSpeed's buffers.

    Stage 0 with several processes flattens all gradients of a policy, stages 1 and 2 fill one bucket. Stage 3
    keeps one bucket per policy, copies it to reduce it, and gathers a policy's weights, up to 1e9 of them.
    """
    if not learning:
        return 0
    bucket = min(REDUCE_BUCKET, trained)
    if stage == 3:
        return learning * bucket + bucket * (processes > 1) + min(_GATHERED, parameters)
    return bucket if stage else trained * (processes > 1)


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
    together = min(HF_MAX_BATCH, -(-rollout.episodes_per_step // rollout.lockstep_groups))
    return together * rollout.max_context * shape.layers * 2 * shape.keys * w


def engine_bytes(config: Config, shape: Shape, policies: PolicyMap) -> int:
    """Bytes of vLLM on a CPU: each engine's weights and key-value cache.

    Adapters share one engine. One in fp32 computes with the weights that were sent, counted as ``host``.
    """
    engine = config.engine
    if engine.name != "vllm":
        return 0
    half = "bf16" in (engine.dtype, config.optim.dtype if engine.dtype == "learner" else "")
    in_place = not half and not policies.lora and engine.tensor_parallel == 1
    weights = 0 if in_place else shape.parameters * (2 if half else 4)
    return (1 if policies.lora else len(policies.names)) * (weights + engine.kv_cache_mb * 2**20)


def checkpoint_bytes(config: Config, shape: Shape, policies: PolicyMap) -> int:
    """Bytes of one checkpoint of all trained policies.

    Each has its trained weights, its optimizer's state, and a Hugging Face folder with the whole model.
    """
    w = 2 if config.optim.dtype == "bf16" else 4
    trained = adapter_parameters(shape, config.lora) if policies.lora else shape.parameters
    k = 12 if config.optim.zero_stage else 8
    return len(policies.trainable) * ((w + k) * trained + w * shape.parameters)
