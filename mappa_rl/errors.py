"""The one exception family of ``mappa_rl``: every message names the value and the remedy."""

from __future__ import annotations


class MappaRLError(Exception):
    """Base class of everything ``mappa_rl`` raises on purpose."""


class EngineError(MappaRLError, RuntimeError):
    """A generation engine cannot serve a request or a model."""


class EngineMemoryError(EngineError):
    """An engine has too little memory. The message, without a full stop, names the settings to change."""


class ClusterError(MappaRLError, RuntimeError):
    """The cluster cannot be reached, or lacks what a process of the run needs."""


class ActorLost(ClusterError):
    """A process of the run on the cluster has died, or its node has."""


class PolicyError(MappaRLError, ValueError):
    """The map from agents to policies does not fit the team, or names something that does not exist."""


class ContextError(MappaRLError, AssertionError):
    """What the learner would train on is not what the sampler saw and produced."""


class TokenizerError(MappaRLError, ValueError):
    """A tokenizer or chat template cannot be used as asked."""


class ConfigError(MappaRLError, ValueError):
    """A recipe or an override has an unknown key or a value that is not allowed."""


class RunError(MappaRLError, RuntimeError):
    """A folder does not contain the requested run, or a run failed."""


class LearnerError(MappaRLError, RuntimeError):
    """The learner cannot be built or cannot train on what it was given."""


class CrewLost(LearnerError):
    """A process of a crew has died."""


class CheckpointError(MappaRLError, RuntimeError):
    """A checkpoint is missing or incomplete, or belongs to another run or format."""
