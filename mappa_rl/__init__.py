"""Train teams of LLM agents with rewards per action.

>>> from mappa_rl import load_config, train
>>> run = train(load_config("demo", ["run.steps=2"]))
>>> print(run.folder, run.summary)

Names are imported on first use, so ``import mappa_rl`` is fast and does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mappa_env import __version__
    from mappa_rl.algos import Algorithm
    from mappa_rl.api import RunResult, evaluate, train
    from mappa_rl.config import Config, load_config

__all__ = ["Algorithm", "Config", "RunResult", "__version__", "evaluate", "load_config", "train"]
_HOMES = {
    "Algorithm": "mappa_rl.algos",
    "Config": "mappa_rl.config",
    "RunResult": "mappa_rl.api",
    "__version__": "mappa_env",
    "evaluate": "mappa_rl.api",
    "load_config": "mappa_rl.config",
    "train": "mappa_rl.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mappa_rl' has no attribute {name!r}; it has {', '.join(__all__)}.")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
