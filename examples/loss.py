"""mappa-rl train demo algo.loss=examples/loss.py:SoftClip algo.loss_options.width=0.3"""

from dataclasses import dataclass

from mappa_rl.learner.losses import TokenLoss, Tokens


@dataclass(frozen=True)
class SoftClip:
    """``-A_t tanh((s_t - 1) / width) width``: the gradient fades where the ratio leaves 1, and never ends."""

    width: float = 0.2

    def __call__(self, tokens: Tokens) -> TokenLoss:
        away = (tokens.ratio - 1) / self.width
        return TokenLoss(-tokens.advantages * away.tanh() * self.width, away.detach().abs() > 1)
