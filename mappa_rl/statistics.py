"""What a step's episodes say: success, rewards by agent and stratum, lengths, shares that were masked."""

from __future__ import annotations

from collections import defaultdict

from mappa_rl.rollout import Collected


def rollout_stats(collected: Collected) -> dict[str, float]:
    """Metrics of one batch of episodes. Rewards (0-10) are means over actions whose reward is valid."""
    rollouts = collected.rollouts
    groups: dict[str, list[float]] = defaultdict(list)
    for rollout in rollouts:
        groups["success"].append(float(rollout.success))
        groups["score"].append(rollout.score)
        groups[f"success/{rollout.topic}"].append(float(rollout.success))
        for turn in rollout.turns:
            groups["masked"].append(float(not turn.valid))
            groups["truncated"].append(float(turn.stopped == "length"))
            groups[f"length/{turn.agent}"].append(float(len(turn.action_ids)))
            if turn.valid:
                family, role, index = turn.stratum
                groups[f"reward/{turn.agent}"].append(turn.reward)
                groups[f"stratum/{family}/{role}/{index}"].append(turn.reward)
    values = {name: sum(found) / len(found) for name, found in groups.items() if found}
    seconds = {f"time/{name}": spent for name, spent in collected.seconds.items()}
    return {**values, "episodes": float(len(rollouts)), "tokens": float(collected.tokens), **seconds}
