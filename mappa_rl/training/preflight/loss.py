"""The loss: found by name, built with its settings, and tried on a few tokens."""

from __future__ import annotations

from mappa_rl.config import Config
from mappa_rl.errors import ConfigError
from mappa_rl.training.preflight.problem import Problem, problems_of

COUNT = 6
"""Tokens to try a loss on."""


def loss_problems(config: Config) -> list[Problem]:
    """A loss that is missing, has wrong settings, or gives wrong values for a few tokens."""
    return problems_of("loss", lambda: check_loss(config))


def check_loss(config: Config) -> None:
    """Try the loss. Raises ConfigError that names it and what is wrong."""
    import torch

    from mappa_rl.learner.losses import Objective, Tokens

    name, objective = config.algo.loss, Objective(config.algo)
    logprobs = torch.linspace(-2, -1, COUNT, requires_grad=True)
    tokens = Tokens(
        logprobs, torch.full((COUNT,), -1.5), torch.linspace(-1, 1, COUNT), torch.arange(COUNT) // 2
    )
    try:
        values = objective.token_loss(tokens).values
        shape, finite = tuple(values.shape), bool(torch.isfinite(values).all())
        (gradient,) = torch.autograd.grad(values.sum(), logprobs)
    except Exception as error:
        raise ConfigError(
            f"algo.loss={name!r} failed on {COUNT} test tokens: {type(error).__name__}: {error}"
        ) from error
    if shape != (COUNT,) or not finite or not torch.isfinite(gradient).all():
        raise ConfigError(
            f"algo.loss={name!r} must give one finite value with a finite gradient per token: {COUNT} tokens "
            f"gave values of shape {shape}: {values.detach().flatten()[:COUNT].tolist()}."
        )
