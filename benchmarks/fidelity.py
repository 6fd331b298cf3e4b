"""Compare the token ids trained on with the ids sampled, per chat family, and with a round trip through text.

Episodes are played by the real collector through the real environments; the engine notes every prompt it is
given and every id it answers with, and the training sequences are compared with those notes. Two samplers:

* ``model``: a small Qwen3 that imitated the scripted team for a few steps, with this family's tokenizer;
* ``random``: no model, but ids that are hard to preserve: uniform ids, invalid UTF-8, text split into
  tokens that the tokenizer would not choose, spelled-out special tokens, thinking.

Tokenizers are trained here and templates are those of ``tests/helpers/chat_families.py``: real models have
larger vocabularies, so the shares of the round trip hold for this benchmark alone. What must hold is 100 %.

    python benchmarks/fidelity.py [--quick] [--actions 12000] [--json PATH]
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from mappa_env import team_env
from mappa_rl.config import Model, Optim, WarmStart
from mappa_rl.engines.base import Generation, Request
from mappa_rl.engines.hf.engine import HFEngine
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.lr_schedule import Schedule
from mappa_rl.learner.samples import training_samples
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.tiny import tiny_qwen3
from mappa_rl.rollout.lockstep import LockstepRollout
from mappa_rl.rollout.policies import Policies, Policy
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job
from mappa_rl.seeds import numbered
from mappa_rl.types import Sample
from mappa_rl.warmstart.demonstrations import DemonstrationEpisode, demonstrate, texts
from mappa_rl.warmstart.imitation import imitate, token_weights
from mappa_rl.warmstart.warmstart import demonstrated

_TESTS = Path(__file__).resolve().parents[1] / "tests" / "helpers"
MATHCHAT, DSBENCH = "mappa/MathChat-v0", "mappa/DSBench-v0"
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    MATHCHAT: {"prompts": "compact", "coach": "off", "sandbox": "calculator"},
    DSBENCH: {"prompts": "compact", "coach": "off", "sandbox": "null"},
}
SHARES = {("model", MATHCHAT): 0.12, ("random", MATHCHAT): 0.68, ("random", DSBENCH): 0.2}
"""Share of all actions, by sampler and environment."""
MAX_NEW, MAX_CONTEXT = 48, 6000
IN_FLIGHT = {MATHCHAT: 64, DSBENCH: 8}
"""Parallel episodes: a DSBench task takes long to make."""
Pair = tuple[tuple[int, ...], tuple[int, ...]]


class Noted:
    """An engine that records its prompts and replies: the reference for the comparison."""

    version, max_len = 0, MAX_CONTEXT

    def __init__(self, answer: Callable[[Sequence[Request]], list[Generation]]) -> None:
        self._answer = answer
        self.notes: list[Pair] = []

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        found = self._answer(requests)
        self.notes += [(tuple(r.ids), tuple(g.ids)) for r, g in zip(requests, found, strict=True)]
        return found


class RandomReplies:
    """Replies without a model, from the seed of the request."""

    def __init__(self, chat: ChatTokenizer, spellings: Sequence[str], plain: Sequence[str]) -> None:
        self._chat, self._size, self._plain = chat, len(chat.tokenizer), plain
        self._bytes = [i for i in range(self._size) if "\ufffd" in chat.tokenizer.decode([i])]
        self._spellings = spellings
        self._ways = (self._uniform, self._broken, self._cut, self._spelled, self._thinking)

    def __call__(self, requests: Sequence[Request]) -> list[Generation]:
        return [self._reply(request) for request in requests]

    def _reply(self, request: Request) -> Generation:
        rng = np.random.default_rng(request.seed)
        ids = self._ways[rng.integers(len(self._ways))](rng)[: request.max_tokens - 1] or [0]
        ends = [i for i, token in enumerate(ids) if token in self._chat.stop_ids]
        ids = ids[: ends[0]] if ends and ends[0] else [i for i in ids if i not in self._chat.stop_ids] or [0]
        done = bool(rng.random() < 0.8)
        ids = [*ids, self._chat.stop_ids[0]] if done else ids
        return Generation(tuple(map(int, ids)), (-1.0,) * len(ids), "eos" if done else "length")

    def _uniform(self, rng: np.random.Generator) -> list[int]:
        return rng.integers(self._size, size=rng.integers(1, 40)).tolist()

    def _broken(self, rng: np.random.Generator) -> list[int]:
        return [*rng.choice(self._bytes, size=rng.integers(1, 12)).tolist(), *self._cut(rng)]

    def _cut(self, rng: np.random.Generator) -> list[int]:
        return self._pieces(self._text(rng), rng, 0.3)

    def _spelled(self, rng: np.random.Generator) -> list[int]:
        return [*self._pieces(str(rng.choice(self._spellings)), rng, 1.0), *self._cut(rng)]

    def _thinking(self, rng: np.random.Generator) -> list[int]:
        opening = "" if self._chat.opened else "<think>\n"
        closing = "\n</think>\n\n" if rng.random() < 0.8 else ""
        return self._chat.encode(f"{opening}so {rng.integers(99)}{closing}") + self._chat.encode(
            self._text(rng)
        )

    def _text(self, rng: np.random.Generator) -> str:
        if rng.random() < 0.6:
            return f"```python\nprint({rng.integers(99)} + {rng.integers(9)})\n```"
        return str(rng.choice(self._plain))

    def _pieces(self, text: str, rng: np.random.Generator, often: float) -> list[int]:
        """``text`` cut at random places, and every piece tokenised by itself."""
        cuts = [0, *(i for i in range(1, len(text)) if rng.random() < often), len(text)]
        return [i for a, b in itertools.pairwise(cuts) for i in self._chat.encode(text[a:b])]


@dataclass(slots=True)
class Tally:
    """Counts of one family and sampler; ``*_text``: what a round trip through text would have changed."""

    family: str
    sampler: str
    actions: int = 0
    kept: int = 0
    samples: int = 0
    breaks: int = 0
    later_turns: int = 0
    action_text: int = 0
    context_text: int = 0
    sample_text: int = 0
    environments: dict[str, int] = field(default_factory=dict)

    def add(
        self,
        env_id: str,
        notes: Sequence[Pair],
        done: Collected,
        trained: Sequence[Sample],
        chat: ChatTokenizer,
    ) -> None:
        spans = Counter(
            (tuple(s.ids[: p.start].tolist()), tuple(s.ids[p.start : p.end].tolist()))
            for s in trained
            for p in s.spans
            if s.action_mask[p.start : p.end].all()
        )
        self.kept += sum((Counter(notes) & spans).values())
        self.actions += len(notes)
        self.environments[env_id] = self.environments.get(env_id, 0) + len(notes)
        self.samples += len(trained)
        self.breaks += sum(sample.part > 0 for sample in trained)
        changed = {
            (episode, turn.step): _round_trip(chat, turn.context_ids, turn.action_ids, record.messages)
            for episode, (rollout, played) in enumerate(zip(done.rollouts, done.trajectories, strict=True))
            for turn, record in zip(rollout.turns, played.actions, strict=True)
        }
        self.later_turns += sum(turn.turn > 0 for rollout in done.rollouts for turn in rollout.turns)
        self.action_text += sum(action for action, _ in changed.values())
        self.context_text += sum(context for _, context in changed.values())
        self.sample_text += sum(any(any(changed[s.episode, p.step]) for p in s.spans) for s in trained)


def _round_trip(
    chat: ChatTokenizer, context: Sequence[int], action: Sequence[int], messages: Sequence[dict[str, str]]
) -> tuple[bool, bool]:
    """Whether (the action, its context) would have other ids after a round trip through text."""
    end = [action[-1]] if action[-1] in chat.stop_ids else []
    text = chat.tokenizer.decode(list(action), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return [*chat.encode(text), *end] != list(action), chat.open(messages) != list(context)


def trained_model(chat: ChatTokenizer, episodes: Sequence[DemonstrationEpisode], steps: int) -> Any:
    """A small Qwen3 that imitated the scripted team for ``steps`` updates."""
    model = tiny_qwen3(chat.tokenizer, Model(hidden=64, layers=1, mlp=128, max_len=MAX_CONTEXT), seed=0)
    samples = [sample for episode in episodes for sample in demonstrated(episode, chat)]
    start = WarmStart(steps=steps, batch_size=8)
    schedule = Schedule(3e-3, "linear", warmup=min(20, steps - 1), total=steps, floor=0.0)
    learner = Learner(model, Optim(), schedule, temperature=1.0, critic=False, seed=0)
    weights = [token_weights(sample, start.prompt_weight) for sample in samples]
    imitate(learner, samples, weights, start, seed=0)
    return model


def measure(
    family: Any, actions: int, episodes: list[DemonstrationEpisode], steps: int, seed: int
) -> Iterator[Tally]:
    """Play ``actions`` with the tokenizer and template of one family."""
    chat = ChatTokenizer(family.tokenizer(list(texts(episodes))))
    said = sorted({action.action for episode in episodes for action in episode.actions})[:200]
    random = RandomReplies(chat, [*family.specials, *family.plain, "<think>", "</think>"], said)
    tallies = {name: Tally(family.name, name) for name, _ in SHARES}
    for (name, env_id), share in SHARES.items():
        engine = Noted(HFEngine(trained_model(chat, episodes, steps)).generate if name == "model" else random)
        play(tallies[name], env_id, chat, engine, round(share * actions), seed)
    yield from tallies.values()


def play(tally: Tally, env_id: str, chat: ChatTokenizer, engine: Noted, actions: int, seed: int) -> None:
    """Let ``engine`` play the whole team for ``actions`` actions, and count which ids were preserved."""
    options = ENVIRONMENTS[env_id]
    team = team_env(gym.make(env_id, **options)).card.team.names
    policy = Policy("shared", None, chat, engine)  # type: ignore[arg-type]
    policies = Policies(PolicyMap.from_spec("shared", team), [policy])
    together, played = max(2, min(IN_FLIGHT[env_id], actions // 4)), 0
    with LockstepRollout(
        partial(gym.make, env_id, **options), policies, in_flight=128, lockstep_groups=2, workers=8
    ) as rollouts:
        while len(engine.notes) < actions:
            before = len(engine.notes)
            jobs = [Job(numbered(seed, played + i)) for i in range(together)]
            done = rollouts.collect(jobs, Sampling(1.0, MAX_NEW, MAX_CONTEXT, 1.0, {}))
            samples = training_samples(policies.map, done.rollouts)["shared"]
            tally.add(env_id, engine.notes[before:], done, samples, chat)
            played += together


def table(tallies: Sequence[Tally]) -> Table:
    shown = Table(title="training ids against sampled ids", title_justify="left")
    for name in ("family", "sampler"):
        shown.add_column(name)
    right = ("actions", "kept", "breaks", "later turns", "round trip: actions", "contexts", "samples")
    for name in right:
        shown.add_column(name, justify="right")
    for t in tallies:
        changed = ((t.action_text, t.actions), (t.context_text, t.actions), (t.sample_text, t.samples))
        shown.add_row(
            t.family,
            t.sampler,
            f"{t.actions:,}",
            f"{t.kept / t.actions:.2%}",
            str(t.breaks),
            str(t.later_turns),
            *(f"{n / of:.1%}" for n, of in changed),
        )
    return shown


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--actions", type=int, default=12_000, help="minimum number of actions, over all families"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few actions, and an untrained model")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)
    if not (_TESTS / "chat_families.py").is_file():
        sys.exit(f"{_TESTS}/chat_families.py is missing: run this in a checkout of the repository.")
    sys.path.insert(0, str(_TESTS))
    from chat_families import FAMILIES

    torch.set_num_threads(1)
    started, steps = time.perf_counter(), 2 if args.quick else 60
    total = 140 if args.quick else args.actions
    episodes = demonstrate(
        MATHCHAT,
        WarmStart(episodes=20 if args.quick else 100, team="faulty"),
        seed=args.seed,
        env_options={"prompts": "compact", "sandbox": "calculator"},
    )
    tallies = []
    for family in FAMILIES.values():
        tallies += measure(family, -(-total // len(FAMILIES)), episodes, steps, args.seed)
        print(f"{family.name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    console = Console(width=130)
    console.print(table(tallies))
    kept, actions = sum(t.kept for t in tallies), sum(t.actions for t in tallies)
    console.print(
        f"{kept:,} of {actions:,} actions kept their ids and context; {time.perf_counter() - started:.0f} s"
    )
    if args.json:
        rows = [{slot: getattr(t, slot) for slot in Tally.__slots__} for t in tallies]
        args.json.write_text(json.dumps({"actions": actions, "kept": kept, "rows": rows}, indent=2) + "\n")
    return 0 if kept == actions else 1


if __name__ == "__main__":
    sys.exit(main())
