"""The model, its warm start and the engine that samples from it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from mappa_env.cards import Card
from mappa_env.scripted import load_script
from mappa_rl.config import Config
from mappa_rl.errors import ConfigError, EngineError, TokenizerError
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.pretrained import model_folder
from mappa_rl.models.shape import Shape, shape_of
from mappa_rl.training.preflight.problem import Problem, problems_of

LARGE = 500_000_000
"""Models of at least this size need a GPU."""


def known_shape(config: Config) -> Shape | None:
    """The shape of the model, the largest one of several; None where a model is not on this machine."""
    kinds = {config.model.kind, *config.policies.models.values()}
    try:
        shapes = [shape_of(config.model.model_copy(update={"kind": kind})) for kind in sorted(kinds)]
    except ConfigError:
        return None
    return max(shapes, key=lambda shape: shape.parameters)


def model_problems(config: Config, card: Card | None) -> list[Problem]:
    """What keeps the policies from starting: no model, no warm start."""
    kinds = dict.fromkeys([config.model.kind, *config.policies.models.values()])
    found = [
        problem
        for kind in kinds
        if kind != "tiny" or kind in config.policies.models.values()
        for problem in problems_of("model", partial(check_chats, kind))
    ]
    return found + adapter_problems(config) + warm_start_problems(config, card)


def check_chats(kind: str) -> None:
    """Raise ConfigError if the model ``kind`` is not on this machine, or is none for chats."""
    folder = model_folder(kind)
    from transformers import AutoTokenizer

    from mappa_rl.models.chat import ChatTokenizer

    try:
        ChatTokenizer(AutoTokenizer.from_pretrained(folder))
    except (TokenizerError, OSError, ValueError, TypeError) as error:
        raise ConfigError(f"model.kind={kind!r}: {error}") from None


def adapter_problems(config: Config) -> list[Problem]:
    """Adapters for layers that a model does not have; none for a model that is not on this machine."""
    if config.policies.map != "lora":
        return []
    from mappa_rl.models.lora import check_targets

    found = []
    for kind in dict.fromkeys([config.model.kind, *config.policies.models.values()]):
        try:
            sides = shape_of(config.model.model_copy(update={"kind": kind})).sides
        except ConfigError:  # `model_folder` says why
            continue
        except (OSError, ValueError) as error:  # transformers knows no such model
            found.append(Problem("model", f"model.kind={kind!r}: {error}"))
            continue
        found += problems_of("adapters", partial(check_targets, config.lora, sides, kind))
    return found


def engine_problems(config: Config) -> list[Problem]:
    """An engine that is not installed, or cannot do what its settings ask for on this machine."""
    from mappa_rl.engines.make import check_engine

    found = problems_of("engine", lambda: check_engine(config))
    kinds = dict.fromkeys([config.model.kind, *config.policies.models.values()])
    return found + [each for kind in kinds if kind != "tiny" for each in _context_problems(config, kind)]


def width_problems(config: Config, policies: PolicyMap) -> list[Problem]:
    """Models of which vLLM cannot spread the layers over ``tensor_parallel`` GPUs."""
    if config.engine.name != "vllm":
        return []
    found: dict[str, None] = {}
    for name in policies.names:
        key = f"placement.engines.{name}" if name in config.placement.engines else "engine"
        width = config.engine_of(name).tensor_parallel
        kind = config.policies.models.get(name, config.model.kind)
        try:
            shape = shape_of(config.model.model_copy(update={"kind": kind}))
        except (ConfigError, OSError, ValueError):  # other problems say that there is no such model
            continue
        if shape.splits_over(width):
            continue
        heads = shape.heads
        fit = [str(each) for each in range(1, heads.queries + 1) if shape.splits_over(each)]
        found[
            f"{key}.tensor_parallel={width} does not fit model.kind={kind!r}, which has {heads.queries} "
            f"attention heads, {heads.keys} of keys, and layers {shape.mlp} wide: use {', '.join(fit)}."
        ] = None
    return [Problem("engine", message) for message in found]


def _context_problems(config: Config, kind: str) -> list[Problem]:
    """Texts of ``rollout.max_context`` that the model ``kind`` cannot read, or its engine cannot play."""
    import torch
    from transformers import AutoConfig

    from mappa_rl.engines.hf.context import longest_text, positions

    try:
        read: Any = AutoConfig.from_pretrained(model_folder(kind), local_files_only=True)
        most = positions(read)
        if config.engine.name == "hf" or not torch.cuda.is_available():  # nor does the learner know windows
            most = longest_text(read)
    except ConfigError:  # `model_problems` says that there is no such model
        return []
    except (OSError, ValueError) as error:  # transformers knows no such model
        return [Problem("model", f"model.kind={kind!r}: {error}")]
    except EngineError as error:
        return [Problem("engine", f"{kind}: {error}")]
    wanted = config.rollout.max_context
    if wanted <= most:
        return []
    return [
        Problem(
            "engine",
            f"rollout.max_context={wanted} exceeds the {most} tokens that {kind} can play and learn with "
            f"engine.name={config.engine.name} on this machine: lower it.",
        )
    ]


def gpu_problems(config: Config) -> list[Problem]:
    """A large model without a GPU."""
    import torch

    shape = known_shape(config)
    if shape is None or shape.parameters < LARGE or torch.cuda.is_available():
        return []
    return [
        Problem(
            "model",
            f"model.kind={config.model.kind} has {shape.parameters / 1e9:.1f} billion parameters and needs a "
            "GPU, but torch finds none: use a machine with a GPU, or a smaller model.",
        )
    ]


def warm_start_problems(config: Config, card: Card | None) -> list[Problem]:
    """Whether the policies have something to start from."""
    start, tiny = config.warmstart, config.model.kind == "tiny"
    if start.path:
        if (Path(start.path) / "config.json").is_file():
            return []
        return [
            Problem(
                "warmstart",
                f"warmstart.path={start.path!r} is not a model folder (config.json is missing): name the "
                "warmstart folder of a run.",
            )
        ]
    if card is not None and card.scripted is None and (start.steps or tiny):
        return [
            Problem(
                "warmstart",
                f"the card {card.id} has no scripted team to imitate: start from a pretrained model with "
                "model.kind=<folder or Hugging Face id> warmstart.steps=0.",
            )
        ]
    if tiny and not start.steps:
        return [
            Problem(
                "warmstart", "a randomly initialised model needs a warm start: set warmstart.steps above 0."
            )
        ]
    if card is not None and card.scripted is not None and start.steps:
        script = card.scripted
        return problems_of("warmstart", lambda: load_script(script))
    return []
