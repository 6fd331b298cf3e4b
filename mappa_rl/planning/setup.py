"""What a prediction starts from: the work of one training step, and the stages and learner that do it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mappa_rl.planning.stage import Stage

GENERATION = "generation"
LEARNING, SYNC = "learning", "weight sync"


@dataclass(frozen=True, slots=True)
class Setup:
    """One training step.

    Attributes:
        stages: What an action passes; one of them is named ``generation``.
        episodes: Of a step (``rollout.episodes_per_step``).
        actions: Of an episode, their mean.
        learn_s: Seconds of the learner for a step.
        sync_s: Seconds until the engines have its weights.
        staleness: As ``rollout.staleness``; above 0, episodes are played while the learner learns.
        lockstep_groups: As ``rollout.lockstep_groups``; 0: no episode waits for another.
    """

    stages: tuple[Stage, ...]
    episodes: int
    actions: float
    learn_s: float
    sync_s: float
    staleness: int
    lockstep_groups: int

    def with_more(self, name: str, factor: float) -> Setup:
        """The setup with ``factor`` times of what the stage ``name``, the learner or the sync works with."""
        if name == LEARNING:
            return replace(self, learn_s=self.learn_s / factor)
        if name == SYNC:
            return replace(self, sync_s=self.sync_s / factor)
        stages = (stage.with_more(factor) if stage.name == name else stage for stage in self.stages)
        return replace(self, stages=tuple(stages))
