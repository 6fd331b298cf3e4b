"""The sections of a run's settings: a field and its docstring for every key."""

from mappa_rl.sections.base import Section
from mappa_rl.sections.episodes import AgentSampling, Env, Eval, Rollout
from mappa_rl.sections.learning import SFT, Algo, Bias, Optim, WarmStart
from mappa_rl.sections.policies import Engine, Lora, Model, Policies
from mappa_rl.sections.run import Run

__all__ = [
    "SFT",
    "AgentSampling",
    "Algo",
    "Bias",
    "Engine",
    "Env",
    "Eval",
    "Lora",
    "Model",
    "Optim",
    "Policies",
    "Rollout",
    "Run",
    "Section",
    "WarmStart",
]
