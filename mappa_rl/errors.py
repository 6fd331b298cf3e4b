"""The one exception family of ``mappa_rl``: every message names the value and the remedy."""

from __future__ import annotations


class MappaRLError(Exception):
    """Base class of everything ``mappa_rl`` raises on purpose."""


class EngineError(MappaRLError, RuntimeError):
    """A generation engine cannot serve a request or a model."""


class PolicyError(MappaRLError, ValueError):
    """The map from agents to policies does not fit the team, or names something that is not offered."""


class ContextError(MappaRLError, AssertionError):
    """What the learner would train on is not what the sampler saw and produced."""


class TokenizerError(MappaRLError, ValueError):
    """A tokenizer or chat template cannot be used as asked."""


class ConfigError(MappaRLError, ValueError):
    """A recipe or an override has an unknown key or a value that is not allowed."""


class RunError(MappaRLError, RuntimeError):
    """A folder does not hold the run that was asked for, or a run could not be carried to its end."""


class LearnerError(MappaRLError, RuntimeError):
    """The learner cannot be built or cannot train on what it was given."""


class CheckpointError(MappaRLError, RuntimeError):
    """A checkpoint is missing, incomplete, or of something else."""


class StatsError(MappaRLError, ValueError):
    """A statistic was asked of data that cannot give it."""
