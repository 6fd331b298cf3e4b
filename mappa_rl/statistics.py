"""What a step's episodes say: success, rewards by agent and stratum, lengths, shares that were masked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from mappa_rl.errors import RunError
from mappa_rl.rollout import Collected
from mappa_rl.types import Floats


def rollout_stats(collected: Collected) -> dict[str, float]:
    """Metrics of one batch of episodes. Rewards (0-10) are means over actions whose reward is valid."""
    rollouts = collected.rollouts
    groups: dict[str, list[float]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.ended != "failed":  # that says nothing of the team
            groups["success"].append(float(rollout.success))
            groups["score"].append(rollout.score)
            groups[f"success/{rollout.topic}"].append(float(rollout.success))
        for turn in rollout.turns:
            groups["masked"].append(float(not turn.valid))
            groups[f"masked/{turn.agent}"].append(float(not turn.valid))
            groups["truncated"].append(float(turn.stopped == "length"))
            groups[f"length/{turn.agent}"].append(float(len(turn.action_ids)))
            if turn.valid:
                family, role, index = turn.stratum
                groups[f"reward/{turn.agent}"].append(turn.reward)
                groups[f"stratum/{family}/{role}/{index}"].append(turn.reward)
    values = {name: sum(found) / len(found) for name, found in groups.items() if found}
    seconds = {f"time/{name}": spent for name, spent in collected.seconds.items()}
    counts = {"episodes": float(len(rollouts)), "tokens": float(collected.tokens)}
    return {**values, **counts, **seconds, **collected.stats}


def check_masked(collected: Collected, most: float, step: int) -> None:
    """Raises RunError where more than the share ``most`` of all actions have no valid reward.

    An episode that ended before its first action counts as one without.
    """
    turns = [[turn.valid for turn in rollout.turns] or [False] for rollout in collected.rollouts]
    valid = [each for episode in turns for each in episode]
    share = 1 - sum(valid) / len(valid)
    if share > most:
        verdicts = [action.verdict for each in collected.trajectories for action in each.actions]
        counts = Counter(verdict.status for verdict in verdicts)
        said = (*collected.reasons, *(v.reasoning for v in verdicts if v.status not in ("ok", "pending")))
        why = Counter(reason[:200] for reason in said if reason).most_common(1)
        raise RunError(
            f"step {step}: {share:.0%} of the actions have no valid reward, more than rollout.max_masked="
            f"{most:.0%}. Verdicts: {dict(counts)}; most often: {why[0][0] if why else 'none'!r}. Mend the "
            "cause and go on with --resume."
        )


def advantage_stats(advantages: Sequence[Floats], weights: Sequence[Floats]) -> dict[str, float]:
    """``advantage_mean``, ``advantage_std`` and ``advantage_abs`` over the tokens that are trained on."""
    values = np.concatenate([a[w != 0] for a, w in zip(advantages, weights, strict=True)] or [np.zeros(0)])
    if not len(values):
        return {}
    found = {"mean": values.mean(), "std": values.std(), "abs": np.abs(values).mean()}
    return {f"advantage_{name}": float(value) for name, value in found.items()}
