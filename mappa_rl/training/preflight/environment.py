"""The environment: its card, tasks, sandbox, shaping, and the prompts of the card in every length."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Literal

from jinja2 import TemplateError

from mappa_env import team_env
from mappa_env.cards import Card
from mappa_env.errors import MappaError
from mappa_env.shaping import make_shaping
from mappa_env.types import Evidence
from mappa_rl.config import Config
from mappa_rl.config.environment import config_on, env_card, make_env
from mappa_rl.evaluation.repeats import check_repeats
from mappa_rl.rollout.jobs import training_tasks
from mappa_rl.training.preflight.problem import Problem, problems_of

SPLITS: tuple[Literal["train", "eval"], ...] = ("train", "eval")
SANDBOX = "calculator"
"""Where the checks' own code runs: in this process, one expression at a time."""
ACTION = "```python\nprint(6 * 7)\n```"
"""An action that runs a tool, so that the tool's message is rendered too."""


def find_card_or_none(config: Config) -> Card | None:
    """The card of the environment; None where ``environment_problems`` says why there is none."""
    try:
        return env_card(config.env.id)
    except MappaError:
        return None


def environment_problems(config: Config, card: Card | None, plays: bool = True) -> list[Problem]:
    """What keeps the environment of either split from being made, and its prompts from being rendered.

    ``plays`` False: the card alone is needed.
    """
    if card is None:
        return problems_of("environment", lambda: env_card(config.env.id))
    if not plays:
        return []
    found = list[Problem]()
    for split in SPLITS:
        for problem in problems_of(f"environment ({split})", lambda s=split: _make(config, s)):  # type: ignore[misc]
            if problem.message not in {known.message for known in found}:
                found.append(problem)
    for env in config.eval.also:
        found += problems_of(f"eval.also.{env}", lambda e=env: _make(config_on(config, e, named=e), "eval"))  # type: ignore[misc]
    if found:
        return found
    for length in card.lengths:
        try:
            evidence_of(config, length)
        except (MappaError, TemplateError) as error:
            found.append(
                Problem("prompts", f"the {length} prompts of the card {card.id} cannot be rendered: {error}")
            )
    return found


def repeats_problems(config: Config) -> list[Problem]:
    """Evaluations that ask for more tasks than there are. Their environments can be made."""
    wanted = config.eval
    if wanted.group_size == 1:
        return []
    asked = {"eval.episodes": (config, wanted.episodes)}
    asked |= {f"eval.also.{env}": (config_on(config, env), count) for env, count in wanted.also.items()}
    found = []
    for key, (each, count) in asked.items():
        with closing(make_env(each.env.id, **(each.env.options("eval") | {"coach": "off"}))) as env:
            tasks = len(team_env(env).task_ids)
        found += problems_of("evaluation", lambda: check_repeats(wanted.group_size, key, count, tasks))  # noqa: B023
    return found


def shaping_problems(config: Config, shapings: Sequence[str]) -> list[Problem]:
    """Shapings to compare that do not exist, or do not fit the other settings."""
    found = []
    for name in shapings:
        wrong = problems_of("shaping", lambda n=name: make_shaping(n))  # type: ignore[misc]
        found += wrong or problems_of(
            f"shaping {name}",
            lambda n=name: config.with_overrides([f"env.shaping={n}"]),  # type: ignore[misc]
        )
    return found


def evidence_of(config: Config, length: str) -> list[Evidence]:
    """What a coach sees of one episode on prompts of ``length``, played with one fixed action."""
    options = config.env.options("train") | {"coach": "off", "sandbox": SANDBOX, "prompts": length}
    with closing(make_env(config.env.id, **options)) as env:
        env.reset(seed=0)
        over = False
        while not over:
            _, _, over, _, _ = env.step(ACTION)
        return list(team_env(env).episode.evidence)


def _make(config: Config, split: Literal["train", "eval"]) -> None:
    with closing(make_env(config.env.id, **(config.env.options(split) | {"coach": "off"}))) as env:
        if split == "train":
            training_tasks(config, team_env(env).task_ids)
