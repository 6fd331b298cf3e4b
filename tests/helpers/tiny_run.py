"""Overrides of ``demo`` for a run of seconds; later overrides win."""

from __future__ import annotations

TINY = (
    "model.hidden=32",
    "model.layers=1",
    "model.mlp=64",
    "warmstart.episodes=40",
    "warmstart.steps=10",
    "warmstart.warmup_steps=1",
    "rollout.episodes_per_step=8",
    "rollout.max_new_tokens=12",
    "env.sandbox=calculator",
    "eval.episodes=2",
    "eval.calibration_temperatures=[]",
    "run.torch_threads=1",
    "run.tensorboard=false",
)
