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

For activations see ``activations``. Nothing is counted of the CUDA context, 1 to 3 GB. What no size gives,
such as free blocks in a CPU's heap that do not fit what is asked for, is in ``measured``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from mappa_rl.config import Config
from mappa_rl.crews.roster import crews_of
from mappa_rl.distributed import REDUCE_BUCKET
from mappa_rl.engines.hf.queue import HF_MAX_BATCH
from mappa_rl.engines.weights.base import MOST_TRANSFERS, gpu_bucket
from mappa_rl.learner.packing import LOGITS_CHUNK
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import Shape, adapter_parameters
from mappa_rl.training.compared import compares
from mappa_rl.training.preflight.measured import ENGINE, FROM_HEAP, HOLES, SCRATCH

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
    """The most that there is between the warm start and the first step."""
    merging: int
    """Adapters merged into a copy of their base, for a checkpoint."""
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
        """The largest of starting, training, saving and generating; the last beside training if ``apart``."""
        generating = self.held + self.generation + self.transfer
        together = self.training + self.generation if self.apart else self.training
        return max(self.start, together, generating, self.held + self.merging)


def estimate(
    config: Config,
    shape: Shape,
    policies: PolicyMap,
    *,
    processes: int,
    device: str = "cuda",
    engine_bytes: int | None = 0,
    crew: int = 0,
) -> Memory:
    """The memory of one of ``processes`` of a ``crew``, with a GPU each where ``device`` is ``cuda``.

    In crew 0 it is that of the process that plays, which holds the weights of all policies.

    ``engine_bytes``: what engines apart from the learner take on the same GPU, their weights included (for
    vLLM its fraction of the GPU's memory); 0: the hf engine, which uses the learner's weights; None: engines
    are elsewhere. With ``engine.sleep`` they give it back while the learner learns.
    """
    optim = config.optim
    w = 2 if optim.dtype == "bf16" else 4
    adapters, stage = policies.lora, optim.zero_stage
    trained = adapter_parameters(shape, config.lora) if adapters else shape.parameters
    roster = crews_of(config.placement.crews, policies)
    count, learning = len(policies.names), list(roster.values()).count(crew)
    parts = processes if stage == 3 else 1
    untrained = count - len(roster) if crew == 0 else 0
    copies = len(roster) - learning if crew == 0 else 0
    if adapters:
        weights = w * (shape.parameters + (learning + copies + untrained) * trained)
    else:
        weights = w * trained * copies + learning * w * trained // parts
    kept = not adapters and ((compares(config) and learning > 0) or untrained > 0)
    reference = w * shape.parameters if kept else 0
    optimizer = learning * (12 if stage else 8) * trained // (processes if stage else 1)
    gradients = w * -(-trained // (processes if stage >= 2 else 1))
    masters = learning * 4 * trained // processes if stage and not optim.offload else 0
    # DeepSpeed moves weights into buffers of its own; a CPU's heap keeps what each policy leaves behind.
    left = w * trained * (learning if device == "cpu" else 1)
    moved = {0: 0, 3: learning * gradients + weights}.get(stage, left)
    sent = w * shape.parameters if config.engine.name == "vllm" and not adapters and crew == 0 else 0
    return Memory(
        weights=weights,
        reference=reference,
        gradients=gradients * (learning if stage == 3 else min(learning, 1)),
        optimizer=0 if optim.offload else optimizer,
        buffers=_buffers(stage, shape.parameters, trained, processes, learning) * w,
        activations=activations(config, shape, w, adapters),
        logits=logits(config, shape, w, adapters, device),
        fragments=fragments(config, shape, w, adapters) if device == "cpu" else 0,
        generation=0 if engine_bytes is None else engine_bytes or generation(config, shape, w),
        transfer=_transfer(config, sent, len({*roster.values()}), device),
        start=weights + reference + masters + moved,
        merging=w * shape.parameters if adapters and learning else 0,
        host=(optimizer if optim.offload else 0)
        + (sent * sum(config.engine_of(name).replicas for name in policies.names) if device == "cuda" else 0),
        apart=bool(engine_bytes) and not config.engine.sleep,
    )


def _transfer(config: Config, sent: int, crews: int, device: str) -> int:
    """What the transfers of ``sent`` bytes to the engines hold; all ``crews`` send at once."""
    if device == "cpu" or not sent:
        return sent // (MOST_TRANSFERS // 2 - 1)
    engine = config.engine
    nccl = engine.devices or engine.tensor_parallel > 1 or config.cluster.name == "ray"
    return gpu_bucket(sent) * (2 if nccl else 1) * max(1, crews)  # vLLM has two of NCCL's on their way


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


def warm_start_bytes(config: Config, shape: Shape, device: str) -> int:
    """Bytes that the first process takes while one model in fp32 imitates; 0 without a warm start.

    Weights, gradients, the optimizer's state and a pass. Gone when the policies start.
    """
    if config.warmstart.path or not config.warmstart.steps:
        return 0
    optimizer = 0 if config.optim.offload and device == "cuda" else 12 if config.optim.zero_stage else 8
    passes = activations(config, shape, 4, False) + logits(config, shape, 4, False, device)
    heap = fragments(config, shape, 4, False) if device == "cpu" else 0
    return (4 + 4 + optimizer) * shape.parameters + passes + heap


def warm_start_disk(config: Config, shape: Shape) -> int:
    """Bytes of a warm start under way: two copies of weights and optimizer while one is saved (fp32)."""
    if config.warmstart.path or not config.warmstart.steps:
        return 0
    return 2 * (4 + (12 if config.optim.zero_stage else 8)) * shape.parameters


def activations(config: Config, shape: Shape, w: int, adapters: bool) -> int:
    """Bytes that one forward pass keeps for its backward pass, logits aside.

    Per token and layer, in numbers of w bytes, with the widths h (hidden), a (queries), k (keys) and m
    (feed-forward): 6 h + 3 a + 2 k + 4 m, and 2 (a + k) more where heads have norms of their own. bf16 adds
    2 h, and a + k of these norms, which keep fp32 copies. Adapters keep each layer's ``rank`` numbers, but
    neither the 2 h nor the a + k that only the gradients of the norms' weights need.
    With autocast, all but 4 h and the norms' inputs is in bf16, and so is a copy of the weights.
    Counted in what torch saves for Llama and Qwen3 of transformers with SDPA attention, whose memory is
    linear in tokens (arXiv 2205.14135). With checkpointing h per layer, and one layer's whole (arXiv
    1604.06174).
    """
    optim = config.optim
    h, a, k, m = shape.hidden, shape.attention, shape.keys, shape.mlp
    normed = a + k if shape.head_norms else 0
    layer = w * (6 * h + 3 * a + 2 * k + 4 * m + 2 * normed + (2 * h + normed if w == 2 else 0))
    copies = 0
    if optim.autocast:
        layer = 2 * (6 * h + 3 * a + 2 * k + 4 * m + normed) + 4 * (4 * h + normed)
        copies = 2 * shape.parameters // (shape.layers if adapters and optim.gradient_checkpointing else 1)
    if adapters:
        own = 2 if optim.autocast else w
        layer += own * config.lora.rank * sum(target in shape.sides for target in config.lora.targets)
        layer -= w * 2 * h + own * normed
    kept = shape.layers * w * h + layer if optim.gradient_checkpointing else shape.layers * layer
    return optim.tokens_per_micro_batch * kept + copies


def logits(config: Config, shape: Shape, w: int, adapters: bool, device: str) -> int:
    """Bytes of one chunk of logits, its softmax and gradient, and of what it adds to the head's gradient."""
    chunk = min(LOGITS_CHUNK[device], config.optim.tokens_per_micro_batch * shape.vocabulary)
    return 3 * 4 * chunk + (0 if adapters else w * shape.vocabulary * shape.hidden)


def fragments(config: Config, shape: Shape, w: int, adapters: bool) -> int:
    """Bytes of a CPU's heap that are free in a pass, but of no use; see ``measured``."""
    wide = 2 if config.optim.autocast else w
    block = min(config.optim.tokens_per_micro_batch * shape.mlp * wide, FROM_HEAP)
    layers = 1 if config.optim.gradient_checkpointing else shape.layers
    return SCRATCH + int(HOLES[adapters] * block * sqrt(layers))


def generation(config: Config, shape: Shape, w: int) -> int:
    """Bytes of the hf engine's key-value cache where every request grows to ``rollout.max_context``."""
    rollout = config.rollout
    groups = 1 if config.is_async else rollout.lockstep_groups
    together = min(HF_MAX_BATCH, -(-rollout.episodes_per_step // groups))
    return together * rollout.max_context * shape.layers * 2 * shape.keys * w


def engine_bytes(config: Config, shape: Shape, policies: PolicyMap) -> tuple[int, ...]:
    """Bytes of vLLM's processes on a CPU: libraries, weights, key-value cache, and adapters or shared memory.

    One number for each replica, of all policies that have so many. Adapters share one engine, which keeps
    four of each (see ``VLLMOptions``). One in fp32 without adapters computes with the weights in shared
    memory. Others pack theirs for oneDNN: the heap keeps the place of the plain ones.
    """
    engine = config.engine
    if engine.name != "vllm":
        return ()
    w = 2 if "bf16" in (engine.dtype, config.optim.dtype if engine.dtype == "learner" else "") else 4
    weights = w * shape.parameters
    cache, packed = engine.kv_cache_mb * 2**20, 2 * weights
    if policies.lora:
        served = 4 * len(policies.names) * w * adapter_parameters(shape, config.lora)
        return (ENGINE + packed + cache + served,) * engine.replicas
    found = [0] * max(config.engine_of(name).replicas for name in policies.names)
    for own in map(config.engine_of, policies.names):
        in_place = w == 4 and own.tensor_parallel == 1
        for replica in range(own.replicas):
            found[replica] += ENGINE + (0 if in_place else packed) + cache + weights
    return tuple(found)


def checkpoint_bytes(config: Config, shape: Shape, policies: PolicyMap) -> int:
    """Bytes of one checkpoint of all trained policies.

    Each has its trained weights, its optimizer's state, and a Hugging Face folder with the whole model.
    """
    w = 2 if config.optim.dtype == "bf16" else 4
    trained = adapter_parameters(shape, config.lora) if policies.lora else shape.parameters
    k = 12 if config.optim.zero_stage else 8
    return len(policies.trainable) * ((w + k) * trained + w * shape.parameters)
