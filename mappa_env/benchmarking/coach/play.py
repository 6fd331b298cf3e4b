"""Episodes of the expert team with extra turns and at most one fault."""

from __future__ import annotations

from mappa_env.benchmarking.coach.faults import Fault, need_script
from mappa_env.benchmarking.coach.layouts import EXTRAS, PLAIN, WORK, Layout
from mappa_env.episode.episode import Episode
from mappa_env.scripted import make_team


def play(
    episode: Episode, task_id: str, seed: int, layout: Layout = PLAIN, fault: Fault | None = None
) -> int | None:
    """Run ``episode`` to its end; returns the step of the fault (None: there was none).

    The fault is the only error: all other actions are the expert's reaction to what it received. So the
    episode without ``fault`` is the same episode with this one action repaired.
    """
    team = make_team(need_script(episode.card), "expert")
    episode.reset(seed=seed, task_id=task_id)
    team.reset(episode.task, seed)
    hidden, at = set[int](), None
    while (agent := episode.agent) is not None:
        step, slot = len(episode.actions), layout.slot(agent, episode.turn)
        if isinstance(slot, str) and slot in EXTRAS:
            text = EXTRAS[slot]
        elif fault is not None and (agent, slot) == (fault.agent, fault.own):
            text, at = fault.text, step
        else:
            seen = [action for action in episode.actions if action.step not in hidden]
            text = team.act(agent, 0 if slot == WORK else int(slot), seen)
        if isinstance(slot, str):
            hidden.add(step)
        episode.act(text)
    return at
