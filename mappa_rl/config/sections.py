"""The sections of a config, before any rule between them is checked."""

from __future__ import annotations

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
from mappa_rl.config.placement import Placement
from mappa_rl.config.policies import Policies
from mappa_rl.config.rollout import Rollout
from mappa_rl.config.run import Run
from mappa_rl.config.sft import SFT
from mappa_rl.config.warmstart import WarmStart


class Sections(Section):
    """One section per concern, each valid by itself."""

    env: Env = Env()
    policies: Policies = Policies()
    placement: Placement = Placement()
    lora: Lora = Lora()
    engine: Engine = Engine()
    model: Model = Model()
    warmstart: WarmStart = WarmStart()
    rollout: Rollout = Rollout()
    algo: Algo = Algo()
    sft: SFT = SFT()
    optim: Optim = Optim()
    eval: Eval = Eval()
    bias: Bias = Bias()
    cluster: Cluster = Cluster()
    run: Run = Run()
