"""How much of the time processes work while an update waits for the last of them.

    python benchmarks/dealing.py

Sequences have SIMULATED lengths (lognormal, median 1,000 tokens), and a process needs time in proportion to
its tokens. ``own``: each process shuffles its own part of the batch into minibatches; ``dealt``: by the
learner's code; ``ideal``: no minibatch takes less time than its longest sequence, or than its tokens divided
evenly. ``micro-batches``: as ``dealt``, but processes wait for each other after every micro-batch of 28,672
tokens, as under ZeRO 2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mappa_rl.learner.dealing import deal, shares
from mappa_rl.learner.minibatches import draw
from mappa_rl.learner.packing import split_by_tokens, split_evenly

MEDIAN, BUDGET, STEPS = 1000, 28_672, 40
CASES = (
    # (samples of a step, minibatches, sigma)
    (64, 1, 0.6),
    (64, 4, 0.6),
    (128, 4, 0.6),
    (256, 4, 0.8),
    (512, 4, 0.8),
    (1024, 8, 1.2),
)
PROCESSES = (6, 8, 16)
WAYS = ("own", "dealt", "ideal", "micro-batches")


def main() -> None:
    print("samples minibatches sigma processes  " + "  ".join(WAYS))
    for samples, minibatches, sigma in CASES:
        for count in PROCESSES:
            found = efficiency(samples, minibatches, sigma, count)
            row = "  ".join(f"{value:{len(way)}.2f}" for way, value in zip(WAYS, found, strict=True))
            print(f"{samples:7} {minibatches:11} {sigma:5} {count:9}  {row}")


def efficiency(samples: int, minibatches: int, sigma: float, count: int) -> list[float]:
    """Tokens, divided by the time of all processes, for each of ``WAYS``."""
    random = np.random.default_rng(0)
    tokens, time = 0, np.zeros(len(WAYS))
    for _ in range(STEPS):
        lengths = np.ceil(MEDIAN * np.exp(random.normal(0, sigma, samples))).astype(int).tolist()
        tokens += sum(lengths)
        own = [draw(random, [mine], epochs=1, minibatches=minibatches) for mine in shares(lengths, count)]
        drawn = draw(random, [range(samples)], epochs=1, minibatches=minibatches)
        parts = deal(drawn, [lengths], count)
        random.bit_generator.state = dict(drawn.random)
        for at, (chosen,) in enumerate(drawn.chosen):
            separate = [[lengths[i] for i in each.chosen[at][0]] for each in own]
            dealt = [[lengths[p.held[0][i]] for i in p.minibatches.chosen[at][0]] for p in parts]
            picked = [lengths[i] for i in chosen]
            time += (
                max(map(sum, separate)),
                max(map(sum, dealt)),
                max(max(picked), sum(picked) / count),
                in_rounds(dealt),
            )
    return [float(value) for value in tokens / count / time]


def in_rounds(dealt: Sequence[Sequence[int]]) -> int:
    """Tokens of the largest micro-batch of each round, summed."""
    greedy = [split_by_tokens(mine, BUDGET) for mine in dealt]
    rounds = max(map(len, greedy))
    sizes = [
        [sum(mine[i] for i in part) for part in split_evenly(mine, BUDGET, rounds) or parts]
        for mine, parts in zip(dealt, greedy, strict=True)
    ]
    return sum(max(each[at] if at < len(each) else 0 for each in sizes) for at in range(rounds))


if __name__ == "__main__":
    main()
