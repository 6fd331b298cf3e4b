"""Least squares whose errors may have unequal variances, with intervals that hold in small samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
MAX_LEVERAGE = 0.5
"""Above it one observation alone decides a coefficient, and its error cannot be estimated."""


ROUNDING = 1e-9


class Estimate(NamedTuple):
    """One coefficient with its 95 % interval and two-sided p."""

    effect: float
    low: float
    high: float
    p: float


def identified(x: Floats) -> bool:
    """Whether the columns are independent and no row has a leverage above MAX_LEVERAGE."""
    if len(x) <= x.shape[1] or np.linalg.matrix_rank(x) < x.shape[1]:
        return False
    return bool(_leverage(x, np.linalg.inv(x.T @ x)).max() <= MAX_LEVERAGE)


def estimate(x: Floats, y: Floats, column: int) -> Estimate:
    """Coefficient ``column`` of y [n] on x [n, k], which must be ``identified``.

    The variance is HC3 (MacKinnon and White 1985), a sum of squares a_i^2 e_i^2 of the residuals e. The
    degrees of freedom are Satterthwaite's for that sum under equal variances, 2 mean^2 / variance (Bell and
    McCaffrey 2002; Imbens and Kolesar 2016): far below n - k where few rows carry the coefficient.
    """
    inverse = np.linalg.inv(x.T @ x)
    beta = inverse @ (x.T @ y)
    rest = 1 - _leverage(x, inverse)
    weights = (x @ inverse[column] / rest) ** 2
    error = float(np.sqrt(weights @ (y - x @ beta) ** 2))
    # with residual maker M: mean = sum a_i^2 M_ii, variance = 2 sum a_i^2 a_j^2 M_ij^2, M = 1 - x inverse x'
    hat = inverse @ (x.T @ (weights[:, None] * x))
    free = float((weights @ rest) ** 2 / (weights**2 @ (2 * rest - 1) + np.sum(hat * hat.T)))
    effect = float(beta[column])
    if error < ROUNDING:  # a deterministic coach: only rounding errors
        return Estimate(effect, effect, effect, float(abs(effect) < ROUNDING))
    width = float(special.stdtrit(free, 0.975)) * error
    p = float(2 * special.stdtr(free, -abs(effect) / error))
    return Estimate(effect, effect - width, effect + width, p)


def _leverage(x: Floats, inverse: NDArray[np.floating[Any]]) -> Floats:
    found: Floats = np.einsum("ij,jk,ik->i", x, inverse, x)
    return found
