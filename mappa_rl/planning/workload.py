"""What a step of a recipe asks for: episodes, actions and tokens, and what each action costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mappa_env.cards import Card
from mappa_rl.config import Config
from mappa_rl.planning.figures import ASSUMED, Figure
from mappa_rl.rollout.sampling import training_sampling

SPREAD = 0.66
"""Of lognormal lengths with sigma 0.6, as docs/training.md assumes for minibatches: sqrt(exp(0.6^2) - 1)."""


def workload(config: Config, card: Card, asks: bool) -> tuple[Figure, ...]:
    """The figures of a recipe, assumed from its limits. ``asks``: its coach is a language model."""
    longest = training_sampling(config).longest
    context = config.rollout.max_context - longest
    return (
        Figure(
            "actions",
            card.order.most_actions,
            "an episode",
            "actions",
            "the most that the card's order allows",
        ),
        Figure(
            "action_tokens",
            longest / 2,
            "tokens",
            "of an action",
            f"{ASSUMED}: half of the limit {longest:,}",
        ),
        Figure(
            "prompt_tokens",
            max(context / 4, 1),
            "tokens",
            "of an action's prompt",
            f"{ASSUMED}: a quarter of the room of {context:,}",
        ),
        Figure(
            "length_spread",
            SPREAD,
            "of the mean",
            "standard deviation of lengths",
            f"{ASSUMED}: lognormal, sigma 0.6",
        ),
        Figure("sandbox_s", 1.0, "s", "an action's code", ASSUMED),
        Figure(
            "environment_s", 0.01, "s", "prompt, record and rubric of an action, on one processor", ASSUMED
        ),
        Figure("leader_s", 0.003, "s", "of the leading process, an action that a worker plays", ASSUMED),
        *([Figure("coach_s", 5.0, "s", "a verdict", ASSUMED)] if asks else ()),
    )


def measured(rows: Iterable[Mapping[str, Any]], source: str, all_train: bool = True) -> tuple[Figure, ...]:
    """Figures from the metrics of a run's training steps; those that it does not log are left out.

    Args:
        rows: As ``metrics.jsonl`` holds them.
        source: The run, for the reader.
        all_train: Whether all policies train. Nothing counts the actions of others, so without them neither
            actions nor seconds of code are known, and lengths are those of the policies that train.
    """
    kept = [row for row in rows if row.get("episodes") and row.get("tokens")]
    if not kept:
        return ()

    def total(prefix: str) -> float:
        return sum(value or 0.0 for row in kept for key, value in row.items() if key.startswith(prefix))

    def weighted(name: str, count: str) -> float | None:
        """The mean over actions of a mean per agent."""
        pairs = [
            (value, row[count + key.removeprefix(name)])
            for row in kept
            for key, value in row.items()
            if key.startswith(name) and row.get(count + key.removeprefix(name))
        ]
        runs = sum(number for _, number in pairs)
        return sum(value * number for value, number in pairs) / runs if runs else None

    actions, trained = total("actions/"), total("action_tokens/")
    found = {}
    if actions:
        found["prompt_tokens"] = max((total("tokens/") - trained) / actions, 1.0)
    if actions and not all_train:
        if trained:
            found["action_tokens"] = trained / (actions - total("invalid/"))
    elif actions:
        found["actions"] = actions / sum(row["episodes"] for row in kept)
        found["action_tokens"] = sum(row["tokens"] for row in kept) / actions
        code_s = weighted("time/sandbox/", "sandbox/runs/")
        if code_s:
            found["sandbox_s"] = code_s * total("sandbox/runs/") / actions
    coach = [row["time/coach"] for row in kept if row.get("time/coach")]
    if coach:
        found["coach_s"] = sum(coach) / len(coach)
    meanings = {
        "actions": ("an episode", "actions"),
        "action_tokens": ("tokens", "of an action"),
        "prompt_tokens": ("tokens", "of an action's prompt"),
        "sandbox_s": ("s", "an action's code"),
        "coach_s": ("s", "a verdict"),
    }
    where = f"measured in {len(kept)} steps of {source}"
    return tuple(Figure(key, value, *meanings[key], where) for key, value in found.items())
