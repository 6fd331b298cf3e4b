"""The algorithm: found by name, built with its settings, and tried on a test batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mappa_rl.algos import Advantages, Algorithm, CriticAlgorithm
from mappa_rl.algos.from_config import algorithm_of
from mappa_rl.config import Config
from mappa_rl.errors import ConfigError, MappaRLError
from mappa_rl.training.preflight.problem import Problem, problems_of
from mappa_rl.types import Floats, Sample, Span

CONTEXT, LENGTHS = 3, (4, 2)
"""Tokens of a prompt and of the two actions of every test sample."""


def algorithm_problems(config: Config) -> list[Problem]:
    """An algorithm that is missing, has wrong settings, or gives wrong advantages for a test batch."""
    return problems_of("algorithm", lambda: check_advantages(algorithm_of(config)))


def check_advantages(algorithm: Algorithm) -> None:
    """Try ``token_advantages`` on a test batch. Raises ConfigError that names the class and what is wrong."""
    samples, name = test_batch(), type(algorithm).__name__
    logprobs = [sample.logprobs for sample in samples]
    try:
        if isinstance(algorithm, CriticAlgorithm):
            values = [np.zeros(len(sample), np.float32) for sample in samples]
            made = algorithm.token_advantages(samples, logprobs, values)
        else:
            made = algorithm.token_advantages(samples, logprobs)
    except MappaRLError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{name}.token_advantages() failed on a test batch of {len(samples)} samples: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Advantages):
        raise ConfigError(
            f"{name}.token_advantages() must return mappa_rl.algos.Advantages, not {type(made).__name__}."
        )
    _check_arrays(f"{name}: advantages", made.advantages, samples)
    _check_arrays(f"{name}: weights", made.weights, samples)
    if isinstance(algorithm, CriticAlgorithm):
        if made.returns is None:
            raise ConfigError(f"{name} has a critic, so its token_advantages() must set returns.")
        _check_arrays(f"{name}: returns", made.returns, samples)


def test_batch() -> list[Sample]:
    """Two tasks, each played twice, two actions an episode with different rewards; one has no reward."""
    return [_sample(index) for index in range(4)]


test_batch.__test__ = False  # type: ignore[attr-defined]


def _sample(index: int) -> Sample:
    spans, position = [], 0
    for turn, length in enumerate(LENGTHS):
        start = position + CONTEXT
        position = start + length
        valid = (index, turn) != (3, 1)
        spans.append(
            Span(start, position, float(2 * index + turn) if valid else 0.0, valid, turn, ("", "agent", turn))
        )
    mask = np.zeros(position, np.bool_)
    for span in spans:
        mask[span.start : span.end] = True
    logprobs = np.where(mask, -0.5, 0.0).astype(np.float32)
    ids = np.arange(position, dtype=np.int64)
    return Sample(ids, mask, logprobs, tuple(spans), "policy", "agent_0", 0, f"task-{index // 2}", index)


def _check_arrays(what: str, arrays: Sequence[Floats], samples: Sequence[Sample]) -> None:
    if len(arrays) != len(samples):
        raise ConfigError(f"{what} must be one array per sample, {len(samples)} in all, found {len(arrays)}.")
    for array, sample in zip(arrays, samples, strict=True):
        if np.shape(array) != (len(sample),):
            raise ConfigError(
                f"{what} must be one number per token, of shape {(len(sample),)}, found {np.shape(array)}."
            )
        if not np.isfinite(array).all():
            raise ConfigError(f"{what} must be finite, found {np.asarray(array)[:8]}.")
