"""What a placement's GPUs do in a step, from the figures: seconds of engines, learner and weight sync."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, log, sqrt

from mappa_rl.config import Config
from mappa_rl.engines.hf.queue import HF_MAX_BATCH
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import Shape, adapter_parameters
from mappa_rl.planning.machines import Machines
from mappa_rl.planning.placement import Placement
from mappa_rl.planning.setup import GENERATION
from mappa_rl.planning.stage import Stage
from mappa_rl.planning.step import expected_maximum
from mappa_rl.training.compared import compares


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs, the recipe and the figures of a plan.

    ``figures``: key -> value, as ``mappa_rl.planning.figures`` and ``workload`` name them.
    """

    config: Config
    shape: Shape
    policies: PolicyMap
    machines: Machines
    figures: Mapping[str, float]

    @property
    def context(self) -> float:
        """Mean tokens of a prompt with half of its action: what an engine attends to."""
        return self.figures["prompt_tokens"] + self.figures["action_tokens"] / 2

    def requests(self, place: Placement) -> int:
        """Requests that the engines on one group of GPUs answer at once; 0: their memory is too small."""
        config, f = self.config, self.figures
        if place.engine == "hf":
            return HF_MAX_BATCH
        servers = 1 if place.apart else place.servers
        fraction = min(config.engine.memory_fraction, 0.5) if place.shares else config.engine.memory_fraction
        whole = fraction * self.machines.gpu_memory * place.tensor_parallel
        taken = servers * (self.engine_weights + f["engine_memory"] * place.tensor_parallel)
        token = 2 * self.shape.layers * self.shape.keys * self.engine_width
        tokens = (whole - taken) / servers / token
        if tokens < config.rollout.max_context:
            return 0
        longest = f["prompt_tokens"] + f["action_tokens"]
        return servers * min(config.engine.max_num_seqs, int(tokens / longest))

    @property
    def engine_width(self) -> int:
        """Bytes of a weight in the engine."""
        own = self.config.engine.dtype
        return 2 if (self.config.optim.dtype if own == "learner" else own) == "bf16" else 4

    @property
    def engine_weights(self) -> int:
        """Bytes of one policy's weights, or of the base that adapters share."""
        return self.engine_width * self.shape.parameters

    def generation(self, place: Placement) -> Stage:
        """An engine decodes in passes over all of its requests; each pass reads the weights once.

        A pass takes weights / bandwidth + requests x (keys and values / bandwidth + 2 P / FLOPs). Servers
        that share GPUs take turns. A prompt that is read holds up the requests beside it.
        """
        f, width = self.figures, place.tensor_parallel
        servers = 1 if place.apart else place.servers
        bandwidth = width * f["gpu_bandwidth"] * f["decode_utilisation"]
        split = f["split_overhead"] * self.shape.layers if width > 1 else 0.0
        overhead = f["pass_overhead" if place.engine == "vllm" else "hf_pass_overhead"]
        pass_s = servers * (overhead + split + self.engine_weights / bandwidth)
        kept = 2 * self.shape.layers * self.shape.keys * self.engine_width * self.context
        product = self.forward(self.context) / (width * f["gpu_flops"] * f["prefill_utilisation"])
        request_s = kept / bandwidth + product
        read_s = f["prompt_tokens"] * self.forward(f["prompt_tokens"])
        read_s /= width * f["gpu_flops"] * f["prefill_utilisation"]
        tokens = f["action_tokens"]
        groups = place.replicas * (place.servers if place.apart else 1)
        most = max(self.requests(place), 1)
        each = tokens * request_s + read_s
        return Stage(
            GENERATION,
            tokens * pass_s + each,
            capacity=groups * most / (tokens * pass_s + most * each),
            growth=each / groups,
            spread=f["length_spread"],
        )

    def forward(self, context: float) -> float:
        """FLOPs of one token's forward pass: 2 per parameter, and 4 per layer, width and token before it."""
        return 2 * self.shape.parameters + 4 * self.shape.layers * self.shape.attention * context

    def learn_s(self, place: Placement) -> float:
        """Seconds of a step's passes, reductions of gradients, and updates, of all trained policies.

        Backward passes cost two forward passes (one where only adapters learn), recomputed layers one more.
        An update waits for its longest sequence, which no two processes share. Crews learn at the same time.
        """
        config, f, optim = self.config, self.figures, self.config.optim
        rollout, learning = config.rollout, len(self.policies.trainable)
        if not learning:
            return 0.0
        samples = rollout.episodes_per_step * f["actions"] * learning / len(self.policies.names)
        mean = f["prompt_tokens"] + f["action_tokens"]
        passes = optim.epochs * ((2 if self.policies.lora else 3) + optim.gradient_checkpointing)
        passes += compares(config) + (config.algo.importance_sampling != "none")
        token_s = passes * self.forward(mean / 2) / (f["gpu_flops"] * f["learn_utilisation"])
        updates = learning * optim.minibatches
        each = samples / updates
        sigma = sqrt(log(1 + f["length_spread"] ** 2))
        longest = mean * exp(sigma * expected_maximum(each) - sigma**2 / 2)
        computing = token_s * updates * max(each * mean / place.learners, min(longest, each * mean))
        exchanging = updates * optim.epochs * self._update_s(place, each * mean / place.learners)
        return (computing + exchanging) / place.crews

    def _update_s(self, place: Placement, tokens: float) -> float:
        """Seconds of an update beside its products: what processes exchange, and the optimizer's copies."""
        optim, f, count = self.config.optim, self.figures, place.learners
        width = 2 if optim.dtype == "bf16" else 4
        one_node = count <= self.machines.gpus_per_node
        bandwidth = f["link_bandwidth" if one_node else "network_bandwidth"]
        part = (count - 1) / count
        if place.zero_stage == 3:
            packs = ceil(tokens / optim.tokens_per_micro_batch)
            sent = 3 * packs * part * width * self.shape.parameters
        else:
            sent = 2 * part * width * self._trained
        parts = count if place.zero_stage else 1
        state = (28 if place.offload else 32) * self._trained / parts
        copied = state / f["host_bandwidth" if place.offload else "gpu_bandwidth"]
        return sent / bandwidth + copied

    @property
    def _trained(self) -> int:
        """Trained parameters of one policy."""
        return (
            adapter_parameters(self.shape, self.config.lora) if self.policies.lora else self.shape.parameters
        )

    def sync_s(self, place: Placement) -> float:
        """Seconds until all engines have the weights of all trained policies, which one process sends.

        Ray's engines take them from GPU to GPU, on another node through the network; adapters, and those of
        other crews on their way to the first one, which sends them, go through main memory.
        """
        f, size = self.figures, self.engine_width * self._trained * len(self.policies.trainable)
        way = f["network_bandwidth"] if place.ray and self.machines.nodes > 1 else f["host_bandwidth"]
        gathered = size * (place.crews - 1) / place.crews * (2 / f["host_bandwidth"] + 1 / way)
        if place.engine == "hf":
            copied = self.config.is_async or place.staleness
            return gathered + (size / f["gpu_bandwidth"] if copied else 0.0)
        if place.ray and self.policies.lora:
            sent = place.replicas * size * (1 / way + 1 / f["host_bandwidth"])
            return gathered + size / f["host_bandwidth"] + sent
        link = "network_bandwidth" if place.ray and self.machines.nodes > 1 else "link_bandwidth"
        sent = 1 / f["gpu_bandwidth" if place.shares else link]
        kept = 0 if self.policies.lora else 1 / f["host_bandwidth"]  # for an engine that starts again
        return gathered + place.replicas * size * (sent + kept)
