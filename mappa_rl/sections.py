"""The sections of a run's settings: a field and its docstring for every key."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mappa_env.sandbox import DEFAULT

Count = Annotated[int, Field(ge=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values do not change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Env(Section):
    """The environment. ``options`` turns it into the keywords of ``gym.make``."""

    id: str = "mappa/MathChat-v0"
    """Environment id, as in ``gym.make(id)``."""
    tasks_train: str = "train"
    """Split of the card, or a path to task files, to train on."""
    tasks_eval: str = "eval"
    """Split of the card, or a path to task files, that is held out for evaluation."""
    task_options: dict[str, Any] = {}
    """Options of the card's task loader, for both splits (for instance ``levels: [1, 2]``)."""
    prompts: Literal["full", "compact"] = "compact"
    """Length of the prompts: ``full`` for real models, ``compact`` for small vocabularies."""
    coach: str | dict[str, Any] = "rubric"
    """Who scores actions: ``rubric``, ``off``, or another coach's name or mapping."""
    coach_feedback: Literal["off", "agents"] = "off"
    """``agents``: the agents see what the coach said of earlier actions."""
    judging: Literal["blocking", "deferred"] = "blocking"
    """``deferred``: verdicts are asked in the background while the team goes on; for slow coaches."""
    sandbox: str | dict[str, Any] = DEFAULT
    """Where the agents' code runs: a backend's name or mapping."""
    shaping: str | dict[str, Any] = "process"
    """What an action is paid: ``process`` (its own score), ``outcome``, ``mixed``, or a mapping."""

    def options(self, split: Literal["train", "eval"]) -> dict[str, Any]:
        """The keywords of ``gym.make`` for one of the two task sets."""
        keywords = self.model_dump(exclude={"id", "tasks_train", "tasks_eval"})
        return {**keywords, "tasks": self.tasks_train if split == "train" else self.tasks_eval}


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


class WarmStart(Section):
    """Supervised steps on a scripted team's episodes, before reinforcement learning."""

    path: str = ""
    """Folder of a warm start that an earlier run saved (``<run>/warmstart``); empty: make one."""
    episodes: Count = 16000
    """Episodes of demonstrations; the tokenizer of a tiny model is trained on them too."""
    team: Literal["expert", "faulty"] = "faulty"
    """The scripted team to imitate."""
    steps: Annotated[int, Field(ge=0)] = 3000
    """Optimizer steps; 0: no warm start, the policies begin as the model that ``model.kind`` names."""
    batch: Count = 16
    """Demonstrated actions per step."""
    lr: Positive = 3e-3
    """Peak learning rate; falls linearly to 0."""
    warmup_steps: Annotated[int, Field(ge=0)] = 50
    """Steps over which the learning rate rises."""
    prompt_weight: Fraction = 0.1
    """Weight of prompt tokens in the loss; action tokens have 1."""
    name_weight: Positive = 1.0
    """Weight of action tokens that spell what the prompt has in single quotes: names to be copied."""
    renamed: Annotated[int, Field(ge=0)] = 0
    """Further copies of each demonstration in which those names are exchanged for other training tasks'."""


class AgentSampling(Section):
    """What one agent has in place of the team's sampling; left out: as the team."""

    temperature: NotNegative | None = None
    max_new_tokens: Count | None = None


class Rollout(Section):
    """How episodes are played for training."""

    episodes_per_step: Count = 128
    """Episodes per training step."""
    samples_per_task: Count = 1
    """Episodes of each drawn task; algorithms that compare episodes of one task need 2 or more."""
    schedule: Literal["auto", "groups", "stream"] = "auto"
    """``groups``: fixed groups in step, repeatable bit for bit; ``stream``: every episode on its own;
    ``auto``: ``stream`` where ``staleness``, ``max_episode_s`` or ``retries`` need it."""
    stratify: Literal["off", "proportional", "equal"] = "off"
    """Tasks of every step by family (as their metrics say): as they come, in the task set's shares, or as
    many of each."""
    groups: Count = 2
    """Groups of episodes that take turns: one generates while the others run code (not in a stream)."""
    workers: Count = 8
    """Threads that step environments (a stream has as many as it needs)."""
    staleness: Annotated[int, Field(ge=0)] = 0
    """Training steps that may lie between sampling an action and training on it; 0: on policy."""
    update_between_turns: bool = True
    """With ``staleness``: new weights at once, also within episodes; false: when those under way are over."""
    max_episode_s: NotNegative = 0.0
    """Seconds that an episode may take; later it is ended and its actions are masked. 0: any."""
    retries: Annotated[int, Field(ge=0)] = 0
    """Further tries of an episode that engine, sandbox or coach spoiled; after the last it is masked."""
    temperature: Positive = 1.0
    """Sampling temperature."""
    max_new_tokens: Count = 96
    """Longest action, in tokens."""
    max_context: Count = 512
    """Longest context with its action, in tokens; at most ``model.max_len``."""
    agents: dict[str, AgentSampling] = {}
    """Agent -> its own ``temperature`` and ``max_new_tokens`` (``agents.solver_0.temperature=0.8``); agents
    that train one policy need one temperature."""
    max_masked: Fraction = 0.5
    """Largest share of a step's actions without a valid reward; a run with more stops, and can be resumed."""

    @property
    def need_stream(self) -> list[str]:
        """The settings that only a stream can fulfil, as overrides."""
        keys = ("staleness", "max_episode_s", "retries")
        return [f"rollout.{key}={getattr(self, key):g}" for key in keys if getattr(self, key)]

    @model_validator(mode="after")
    def _schedule(self) -> Self:
        if self.schedule == "groups" and self.need_stream:
            raise ValueError(
                f"rollout.schedule=groups plays every episode of a step once and to its end, so it does not "
                f"go with {' '.join(self.need_stream)}. Use rollout.schedule=stream."
            )
        return self

    def longest(self, agent: str) -> int:
        """The bound of this agent's actions, in tokens."""
        own = self.agents.get(agent)
        return (own.max_new_tokens if own else None) or self.max_new_tokens


class Algo(Section):
    """From rewards to advantages to the loss."""

    name: str = "reinforce_pp"
    """The algorithm: its name, or a class of your own as ``path/mine.py:Class``."""
    options: dict[str, Any] = {}
    """Settings that this algorithm has beside those below (for instance ``omega: 0.5`` for gigpo)."""
    mode: Literal["per_action", "return_to_go"] = "per_action"
    """``per_action``: an action earns its own reward; ``return_to_go``: also the later ones of its agent."""
    gamma: Fraction = 1.0
    """Discount per action (only ``return_to_go``)."""
    reward_scale: Positive = 0.1
    """Factor on rewards before all else (scores are 0-10)."""
    reward_clip: Positive = 10.0
    """Scaled rewards are clipped to plus and minus this."""
    kl_coef: NotNegative = 0.01
    """Weight of the KL penalty to the warm start, per token."""
    kl_in: Literal["reward", "loss"] = "reward"
    """Where the KL penalty goes: into the reward (k1), or into the loss (k2 or k3)."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k1"
    """Estimate of the KL divergence; pairs with ``kl_in`` that give a wrong gradient are refused."""
    mask_truncated: bool = False
    """Do not train on actions that were cut at ``rollout.max_new_tokens``."""
    overlong_penalty: NotNegative = 0.0
    """Points (of 0-10) taken from an action of ``rollout.max_new_tokens``; 0: none."""
    overlong_buffer: Count = 16
    """Tokens before that limit over which the overlong penalty rises."""
    drop_flat_groups: bool = False
    """Leave out an agent's actions on tasks where all of them were paid the same; needs groups."""
    loss: Literal["ppo", "gspo", "cispo"] = "ppo"
    """The loss: clipped token by token, by the whole action's ratio, or by clipped weights."""
    clip: Positive = 0.2
    """The probability ratio's clip range is [1 - clip, 1 + clip_high]."""
    clip_high: NotNegative = 0.0
    """Upper side of the clip range; 0: as ``clip``."""
    dual_clip: NotNegative = 0.0
    """Bound above 1 on the ratio where the advantage is negative (only ``ppo``); 0: none."""
    correction: Literal["none", "tis", "icepop"] = "none"
    """Weights against a sampler whose log-probs differ from the learner's: truncated, or masked outside."""
    correction_bounds: tuple[NotNegative, Positive] = (0.5, 5.0)
    """Bounds of these weights, below and above 1."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.kl_coef and (self.kl_in, self.kl_estimator) == ("loss", "k1"):
            raise ValueError(
                "algo.kl_in=loss algo.kl_estimator=k1: its gradient is 0 on average, so it holds nothing "
                "back. Use algo.kl_estimator=k2 (the gradient of k1 in the reward) or k3."
            )
        if self.kl_coef and self.kl_in == "reward" and self.kl_estimator != "k1":
            raise ValueError(
                f"algo.kl_in=reward algo.kl_estimator={self.kl_estimator}: its gradient is biased, and "
                "vanishes near the warm start. Use algo.kl_estimator=k1, or algo.kl_in=loss."
            )
        if self.dual_clip and (self.dual_clip <= 1 or self.loss != "ppo"):
            raise ValueError(
                f"algo.dual_clip={self.dual_clip:g} with algo.loss={self.loss}: it must be above 1, for "
                "instance 3, and goes with algo.loss=ppo alone. Use algo.dual_clip=0."
            )
        low, high = self.correction_bounds
        if not low < 1 < high:
            raise ValueError(
                f"algo.correction_bounds=[{low:g}, {high:g}] must lie on both sides of 1, as [0.5, 5.0] does."
            )
        return self


class SFT(Section):
    """Supervised learning beside reinforcement."""

    corrections_coef: NotNegative = 0.0
    """Weight of an action token that the coach corrected, beside the sampled ones; needs a coach that
    corrects."""


class Optim(Section):
    """The learner's optimizer (AdamW), one per policy."""

    lr: Positive = 3e-4
    """Peak learning rate."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Course of the learning rate after its rise, over all training steps."""
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Optimizer steps over which the learning rate rises."""
    warmup_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The same as a share of all optimizer steps, rounded up; in place of ``warmup_steps``."""
    lr_floor: Fraction = 0.0
    """Share of ``lr`` that ``linear`` and ``cosine`` end at."""
    betas: tuple[Fraction, Fraction] = (0.9, 0.95)
    """AdamW's two decay rates."""
    weight_decay: NotNegative = 0.0
    """AdamW's weight decay."""
    grad_clip: Positive = 1.0
    """Largest norm of a policy's gradient."""
    epochs: Count = 1
    """Passes over a step's episodes."""
    minibatches: Count = 2
    """Optimizer steps per pass."""
    tokens_per_micro_batch: Count = 8192
    """Most tokens in one forward pass; changes memory and speed, never the gradient."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """Precision of weights and gradients; ``bf16`` keeps fp32 weights for the optimizer (ZeRO 1 or 2)."""
    attention: Literal["auto", "sdpa", "flash"] = "auto"
    """Kernel of attention in the learner: ``sdpa`` runs everywhere, ``flash`` with ``dtype: bf16`` on a GPU;
    ``auto`` takes flash where it runs."""
    gradient_checkpointing: bool = False
    """Keep only the inputs of decoder layers for the backward pass and compute the rest again."""
    zero_stage: Literal[0, 1, 2, 3] = 0
    """DeepSpeed's ZeRO stage."""
    offload: bool = False
    """Keep the optimizer's state in main memory (ZeRO 1 or 2)."""

    def warmup(self, updates: int) -> int:
        """Optimizer steps of the rise, of ``updates`` in all."""
        return self.warmup_steps or math.ceil(self.warmup_share * updates)

    @model_validator(mode="after")
    def _once(self) -> Self:
        if self.warmup_steps and self.warmup_share:
            raise ValueError(
                f"optim.warmup_steps={self.warmup_steps} and optim.warmup_share={self.warmup_share:g} say "
                "the same thing twice: set one of them to 0."
            )
        if self.lr_floor and self.schedule == "constant":
            raise ValueError(
                f"optim.lr_floor={self.lr_floor:g} has no effect with optim.schedule=constant: choose linear "
                "or cosine, or set it to 0."
            )
        return self

    @model_validator(mode="after")
    def _zero(self) -> Self:
        for asked, key in ((self.dtype == "bf16", "dtype=bf16"), (self.offload, "offload=true")):
            if asked and self.zero_stage == 0:
                raise ValueError(
                    f"optim.{key} needs optim.zero_stage of 1 or 2: stage 0 leaves the optimizer's state "
                    "in the weights' precision and place."
                )
        if self.attention == "flash" and self.dtype == "fp32":
            raise ValueError(
                "optim.attention=flash has no fp32: use optim.attention=auto, or optim.dtype=bf16 with a GPU."
            )
        return self


class Eval(Section):
    """Evaluation on the held-out tasks, before and after, with the same tasks and seeds."""

    episodes: Count = 400
    """Episodes per evaluation; the task set starts again when it runs out."""
    samples: Count = 1
    """Episodes per task, a divisor of ``episodes``; with several, pass@k and the majority's success are
    reported, and intervals are over tasks."""
    temperatures: Annotated[list[NotNegative], Field(min_length=1)] = [1.0]
    """Temperatures that are always evaluated; 0 is greedy."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Draw from the most likely tokens of this total probability; 1: from all."""
    max_new_tokens: Annotated[int, Field(ge=0)] = 0
    """Longest action in evaluations, in tokens; 0: as in training."""
    agents: dict[str, AgentSampling] = {}
    """Agent -> its own ``temperature`` (whatever ``temperatures`` says) and ``max_new_tokens``."""
    calibration_temperatures: list[NotNegative] = [0.2, 0.4, 0.6, 0.8]
    """Tried on the warm start, beside ``temperatures``, to find its own best one, which is evaluated too;
    empty: not."""
    calibration_episodes: Count = 200
    """Training tasks per calibration temperature."""
    every: Annotated[int, Field(ge=0)] = 0
    """Training steps between evaluations on the way; 0: none."""
    validation: Annotated[int, Field(ge=0)] = 0
    """Training tasks, the last ones, that training steps leave out; success on them scores every checkpoint,
    and the best one is kept; 0: none."""


class Bias(Section):
    """Whether the coach is equally strict everywhere, and what is done about it (docs/coach.md)."""

    look_every: Annotated[int, Field(ge=0)] = 10
    """Training steps between two looks at the coach's scores, task family against family; 0: none."""
    window: Count = 2048
    """Newest episodes that a look considers, and scores of a stratum that a correction remembers: policies
    change."""
    correct: Literal["off", "mean", "mean_std"] = "off"
    """Bring scores to one ``mean``, or also to one standard deviation, over (task family, role, turn)."""
    kappa: Positive = 32.0
    """Scores that a stratum needs for its own statistics to count as much as those of all strata."""
    anchors: Annotated[int, Field(ge=0)] = 0
    """Episodes of the scripted faulty team whose actions are judged again and again: a coach call each."""
    anchors_every: Count = 10
    """Training steps between two times that the anchors are judged."""

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.anchors:
            from mappa_env.coach.drift import MIN_EPISODES

            if self.anchors < MIN_EPISODES:
                raise ValueError(
                    f"bias.anchors={self.anchors} can raise no alarm: use 0, or at least {MIN_EPISODES}."
                )
        return self


class Run(Section):
    """The run itself."""

    steps: Annotated[int, Field(ge=0)] = 40
    """Training steps."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of everything random."""
    out: str = ""
    """Folder of the run; empty: ``runs/<recipe>-<time>``."""
    checkpoint_every: Annotated[int, Field(ge=0)] = 10
    """Training steps between checkpoints; 0: only after the last."""
    keep: Count = 2
    """Checkpoints to keep, the newest first."""
    processes: Count = 1
    """Processes that train, each on a GPU of its own where there are GPUs; the first plays the episodes."""
    torch_threads: Annotated[int, Field(ge=0)] = 1
    """Threads of torch; 0: as many as torch likes."""
    tensorboard: bool = True
    """Write TensorBoard files beside ``metrics.jsonl``."""
    wandb: str = ""
    """Weights & Biases project that metrics go to as well; empty: none. Its key is read from WANDB_API_KEY or
    netrc."""
    weave: str = ""
    """Weave project that training episodes go to as traces; empty: none. The key is that of W&B."""
    record_rollouts: bool = False
    """Keep every step's episodes as ``rollouts/step-….jsonl.gz``, from which ``mappa-rl replay`` trains."""
