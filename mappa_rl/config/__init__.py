"""The settings of a run: one section per concern, with a field and a docstring for every key."""

from mappa_rl.config.algo import Algo
from mappa_rl.config.base import Section
from mappa_rl.config.bias import Bias
from mappa_rl.config.cluster import Cluster
from mappa_rl.config.engine import Engine
from mappa_rl.config.env import Env
from mappa_rl.config.eval import Eval
from mappa_rl.config.lora import Lora
from mappa_rl.config.model import Model
from mappa_rl.config.optim import Optim
from mappa_rl.config.policies import Policies
from mappa_rl.config.rollout import AgentSampling, Rollout
from mappa_rl.config.run import Run
from mappa_rl.config.schema import RECIPES, Config, load_config, recipe_names
from mappa_rl.config.sft import SFT
from mappa_rl.config.warmstart import WarmStart

__all__ = [
    "RECIPES",
    "SFT",
    "AgentSampling",
    "Algo",
    "Bias",
    "Cluster",
    "Config",
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
    "load_config",
    "recipe_names",
]
