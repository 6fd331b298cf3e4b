"""Team tasks as environments: ``import mappa_env`` registers every card in gymnasium and pettingzoo.

>>> import gymnasium as gym, mappa_env
>>> env = gym.make("mappa/MathChat-v0")
"""

from __future__ import annotations

from mappa_env.registration import register_card, register_shipped

__all__ = ["__version__", "register_card"]
__version__ = "0.1.0"

register_shipped()
