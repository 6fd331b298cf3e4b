"""How long a run takes, phase by phase, from the pace of its rehearsal."""

from __future__ import annotations

from mappa_rl.commands.rehearsal import Rehearsal
from mappa_rl.commands.work import Work
from mappa_rl.evaluation.summary import Summary
from mappa_rl.telemetry.pace import Pace
from mappa_rl.warmstart.warmstart import TOKENIZER_EPISODES

LAUNCH = "launch"


def durations(rehearsal: Rehearsal, phases: list[Work]) -> dict[str, float]:
    """Phase -> seconds; ``launch`` is the time outside of all phases.

    The replies of policies before their warm start contain no code to run. The time of scripted episodes in
    the sandbox, and with the coach, is therefore added to the time of these replies.
    """
    config, run = rehearsal.config, rehearsal.run
    found = {LAUNCH: rehearsal.launch_s}
    played = run.config["eval"]["episodes"]
    evaluated_s = next(s for name, s in run.phases.items() if name.startswith("before")) / played
    played_s = evaluated_s + rehearsal.plain_s
    saves = config.run.steps // config.run.checkpoint_every if config.run.checkpoint_every else 1
    for phase in phases:
        if phase.phase == "demonstrations":
            found[phase.phase] = _demonstrations(rehearsal, phase.episodes)
        elif phase.phase == "warm start":
            found[phase.phase] = _warm_start(rehearsal, phase.steps) + phase.episodes * played_s
        elif phase.phase == "training":
            pace = run.paces.get("training", Pace(start_s=0.0, unit_s=0.0, end_s=0.0))
            found[phase.phase] = (
                pace.start_s
                + phase.steps * pace.unit_s
                + phase.episodes * rehearsal.judged_s
                + max(saves, 1) * pace.end_s
            )
        else:
            found[phase.phase] = phase.episodes * played_s
    return found


def _demonstrations(rehearsal: Rehearsal, episodes: int) -> float:
    """After the episodes, a tokenizer is trained on the first of them."""
    assert rehearsal.warm is not None
    pace, short = rehearsal.warm.paces["demonstrations"], _episodes(rehearsal.warm)
    texts = min(TOKENIZER_EPISODES, episodes) / min(TOKENIZER_EPISODES, short)
    return pace.start_s + episodes * pace.unit_s + texts * pace.end_s


def _warm_start(rehearsal: Rehearsal, steps: int) -> float:
    """Before the first step, all episodes are tokenized."""
    assert rehearsal.warm is not None
    pace, short = rehearsal.warm.paces["warm start"], _episodes(rehearsal.warm)
    return pace.start_s * rehearsal.config.warmstart.episodes / short + steps * pace.unit_s + pace.end_s


def _episodes(warm: Summary) -> int:
    return int(warm.config["warmstart"]["episodes"])
