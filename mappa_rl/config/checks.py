"""Rules between sections: each check raises ValueError with the keys, their values and the remedy."""

from __future__ import annotations

from typing import Any

from mappa_rl.config.cluster import Cluster
from mappa_rl.config.engine import Engine
from mappa_rl.config.sections import Sections


def context_fits_model(config: Sections) -> None:
    """The longest context fits the model."""
    longest, model = config.rollout.max_context, config.model.max_len
    if longest > model:
        raise ValueError(f"rollout.max_context={longest} exceeds model.max_len={model}.")


def actions_fit_context(config: Sections) -> None:
    """Every limit on actions leaves room for a prompt, and for the overlong penalty to increase."""
    rollout, evaluation, buffer = config.rollout, config.eval, config.algo.overlong_buffer
    limits = {
        "rollout.max_new_tokens": rollout.max_new_tokens,
        "eval.max_new_tokens": evaluation.max_new_tokens,
    }
    for section, agents in (("rollout", rollout.agents), ("eval", evaluation.agents)):
        limits |= {f"{section}.agents.{a}.max_new_tokens": s.max_new_tokens or 0 for a, s in agents.items()}
    for key, limit in limits.items():
        if limit >= rollout.max_context:
            raise ValueError(
                f"{key}={limit} leaves no room for a prompt in rollout.max_context={rollout.max_context}."
            )
        if config.algo.overlong_penalty and key.startswith("rollout") and 0 < limit <= buffer:
            raise ValueError(f"algo.overlong_buffer={buffer} must be below {key}={limit}.")


def episodes_divide(config: Sections) -> None:
    """Episodes divide into lockstep groups and into groups of one task, in training and evaluation."""
    rollout, evaluation = config.rollout, config.eval
    if rollout.lockstep_groups > rollout.episodes_per_step:
        raise ValueError(
            f"rollout.lockstep_groups={rollout.lockstep_groups} needs at least as many "
            f"rollout.episodes_per_step, found {rollout.episodes_per_step}."
        )
    if rollout.episodes_per_step % rollout.group_size:
        raise ValueError(
            f"rollout.group_size={rollout.group_size} must divide rollout.episodes_per_step="
            f"{rollout.episodes_per_step}."
        )
    played = {"eval.episodes": evaluation.episodes}
    for key, count in (played | {f"eval.also.{env}": n for env, n in evaluation.also.items()}).items():
        if count % evaluation.group_size:
            raise ValueError(f"eval.group_size={evaluation.group_size} must divide {key}={count}.")


def staleness_is_corrected(config: Sections) -> None:
    """Actions of older weights need importance sampling."""
    if config.rollout.staleness and config.algo.importance_sampling == "none":
        raise ValueError(
            f"rollout.staleness={config.rollout.staleness} trains on actions that older weights sampled; "
            "without importance sampling its gradient is biased. "
            "Use algo.importance_sampling=tis, or icepop."
        )


def zero_variance_groups_exist(config: Sections) -> None:
    """Dropping zero-variance groups needs groups."""
    if config.algo.drop_zero_variance_groups and config.rollout.group_size == 1:
        raise ValueError(
            "algo.drop_zero_variance_groups compares episodes of one task, and rollout.group_size=1 "
            "plays one. Set rollout.group_size=8, or algo.drop_zero_variance_groups=false."
        )


def refills_have_a_filter(config: Sections) -> None:
    """Only groups that are left out can be replaced."""
    if config.rollout.refill_rounds and not config.algo.drop_zero_variance_groups:
        raise ValueError(
            f"rollout.refill_rounds={config.rollout.refill_rounds} replaces the groups that "
            "algo.drop_zero_variance_groups leaves out: set that to true."
        )


def repeats_outcome(config: Sections) -> bool:
    """Whether the reward of every action contains the outcome."""
    return _name(config.env.shaping) != "process"


def returns_count_outcomes_once(config: Sections) -> None:
    """Returns sum rewards over turns, so no reward may repeat the outcome."""
    shaping = _name(config.env.shaping)
    if config.algo.mode == "return_to_go" and repeats_outcome(config):
        raise ValueError(
            f"algo.mode=return_to_go cannot be combined with env.shaping={shaping}: every action's "
            "reward already contains the outcome, and a return would count it once per turn. Use "
            "algo.mode=per_action."
        )


def bias_has_scores(config: Sections) -> None:
    """Bias corrections need process rewards, and anchors a coach that can be asked again."""
    bias, shaping, coach = config.bias, _name(config.env.shaping), _name(config.env.coach)
    if bias.correct != "off" and (shaping == "outcome" or coach == "off"):
        raise ValueError(
            f"bias.correct={bias.correct} corrects scores, and env.shaping={shaping} with env.coach={coach} "
            "uses none. Use bias.correct=off."
        )
    if bias.anchors and (coach == "off" or coach.startswith("replay:")):
        raise ValueError(
            f"bias.anchors={bias.anchors} asks the coach again, and env.coach={coach} cannot be asked. Use "
            "bias.anchors=0."
        )


def engine_fits(config: Sections) -> None:
    """The engine supports what its section and the optimizer ask for."""
    engine = config.engine
    if config.optim.zero_stage == 3 and engine.name == "hf":
        raise ValueError(
            "optim.zero_stage=3 scatters weights that the hf engine reads whole while it generates; use "
            "engine.name=vllm, or optim.zero_stage=2, and optim.offload=true where memory is short."
        )
    if config.optim.zero_stage == 3 and config.policies.map == "lora":
        raise ValueError(
            "optim.zero_stage=3 scatters weights, and with policies.map=lora all adapters and the reference "
            "compute with one frozen base. Use optim.zero_stage=2, which splits gradients and optimizer: an "
            "adapter's weights are small."
        )
    if engine.name == "hf":
        own = [key for key, value in Engine() if getattr(engine, key) != value]
        if own:
            raise ValueError(f"engine.{own[0]} does nothing with engine.name=hf. Use engine.name=vllm.")
    if engine.sleep and config.rollout.staleness:
        raise ValueError(
            f"engine.sleep=true gives up the memory that rollout.staleness={config.rollout.staleness} "
            "generates with while the learner learns. Use one of the two."
        )
    for key, each in _engines(config).items():
        wanted, devices = each.replicas * each.tensor_parallel, each.devices
        if devices and len(devices) != wanted:
            raise ValueError(
                f"{key}.devices={devices} must list exactly {wanted} GPUs: replicas={each.replicas} times "
                f"tensor_parallel={each.tensor_parallel}; found {len(devices)}."
            )
        if len(set(devices)) < len(devices):
            raise ValueError(f"{key}.devices={devices} lists a GPU twice: list each once.")


def own_engines_fit(config: Sections) -> None:
    """Policies have engines of their own only where each has a server."""
    own = config.placement.engines
    if not own:
        return
    name = next(iter(own))
    if config.engine.name == "hf":
        raise ValueError(f"placement.engines.{name} does nothing with engine.name=hf. Use engine.name=vllm.")
    if config.policies.map == "lora":
        raise ValueError(
            f"placement.engines.{name}: with policies.map=lora one engine serves all policies' adapters. Use "
            "engine.replicas and engine.tensor_parallel."
        )


def _engines(config: Sections) -> dict[str, Engine]:
    """Key -> the engines that it describes."""
    own = {f"placement.engines.{name}": name for name in config.placement.engines}
    found = {key: config.placement.engine_of(name, config.engine) for key, name in own.items()}
    return {"engine": config.engine, **found}


def cluster_has_a_use(config: Sections) -> None:
    """The keys of a cluster need one."""
    own = [key for key, value in Cluster() if getattr(config.cluster, key) != value]
    if config.cluster.name == "local" and own:
        raise ValueError(f"cluster.{own[0]} does nothing with cluster=local. Use cluster=ray.")


def engine_fits_cluster(config: Sections) -> None:
    """An engine that Ray places has GPUs of its own, which Ray chooses."""
    engine = config.engine
    if config.cluster.name == "local" or engine.name == "hf":
        return
    for key, each in _engines(config).items():
        if each.devices:
            raise ValueError(
                f"{key}.devices={each.devices} names GPUs, but with cluster=ray Ray chooses tensor_parallel "
                f"GPUs for each engine. Use {key}.devices=[], and cluster.engine_node to choose the nodes."
            )
    if engine.sleep:
        raise ValueError(
            "engine.sleep=true frees the learner's GPU while it trains, but with cluster=ray engines "
            "have GPUs of their own. Use engine.sleep=false."
        )


def imitation_can_end(config: Sections) -> None:
    """Whether imitation is enough is measured with one model as the whole team."""
    start, own = config.warmstart, sorted(config.policies.models)
    if start.until and own:
        raise ValueError(
            f"warmstart.until={start.until:g} measures the warm start as the whole team, but policies.models "
            f"gives {own[0]} another model. Use warmstart.until=0."
        )
    if start.until and 0 < start.steps < start.check_every:
        raise ValueError(
            f"warmstart.until={start.until:g} is never measured: warmstart.check_every={start.check_every} "
            f"exceeds warmstart.steps={start.steps}. Lower check_every, or set until=0."
        )


def warmups_end(config: Sections) -> None:
    """Learning rates reach their peak before the last update."""
    start, optim = config.warmstart, config.optim
    if start.steps and start.warmup_steps >= start.steps:
        raise ValueError(
            f"warmstart.warmup_steps={start.warmup_steps} must be below warmstart.steps={start.steps}."
        )
    updates = config.run.steps * optim.epochs * optim.minibatches
    warmup = optim.warmup(updates)
    if updates and optim.schedule != "constant" and warmup >= updates:
        key = f"warmup_steps={warmup}" if optim.warmup_steps else f"warmup_ratio={optim.warmup_ratio:g}"
        raise ValueError(
            f"optim.{key} must be below the {updates} optimizer steps "
            "of the run (run.steps x optim.epochs x optim.minibatches)."
        )


def _name(choice: str | dict[str, Any]) -> str:
    """The name in ``name`` or ``{name: ..., option: ...}``."""
    return str(choice if isinstance(choice, str) else choice.get("name"))


CHECKS = (
    context_fits_model,
    actions_fit_context,
    episodes_divide,
    staleness_is_corrected,
    zero_variance_groups_exist,
    refills_have_a_filter,
    returns_count_outcomes_once,
    bias_has_scores,
    engine_fits,
    own_engines_fit,
    cluster_has_a_use,
    engine_fits_cluster,
    imitation_can_end,
    warmups_end,
)
