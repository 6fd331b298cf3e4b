"""The policy map, and the border: training sees exactly what was sampled, on exactly what was consumed."""

from __future__ import annotations

import dataclasses
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from engine_helpers import make_request
from mappa_rl.config import Lora, Model
from mappa_rl.engines.hf.engine import copied_engines
from mappa_rl.errors import ContextError, EngineError, PolicyError
from mappa_rl.learner.samples import check_fidelity, training_samples
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.tiny import tiny_qwen3, train_tokenizer
from mappa_rl.rollout.policies import Policies, Policy
from mappa_rl.types import Rollout, Turn
from team_policies import policies_of

TEAM = ("solver_0", "coder_0", "verifier_0")


@pytest.fixture(scope="module")
def chat() -> ChatTokenizer:
    return ChatTokenizer(train_tokenizer(["plan: 84 * 3", "result: 252"] * 10, Model(vocab_size=300)))


@pytest.fixture(scope="module")
def model(chat):
    return tiny_qwen3(chat.tokenizer, Model(hidden=32, heads=2, kv_heads=1, mlp=32), seed=0)


def sampled(policies: Policies, topic: str = "product") -> Rollout:
    """An episode as a worker records it, with real generations: solver 1 turn, coder 2, verifier 1."""
    turns: list[Turn] = []
    for step, (agent, turn) in enumerate(
        [("solver_0", 0), ("coder_0", 0), ("coder_0", 1), ("verifier_0", 0)]
    ):
        policy = policies[policies.of(agent)]
        if turn:
            last = turns[-1]
            before = [{"role": "user", "content": f"{agent}: 84 * 3?"}]
            reply = {"role": "assistant", "content": policy.chat.decode(last.action_ids)}
            after = [*before, reply, {"role": "user", "content": "output: 252"}]
            context = policy.chat.extend(last.context_ids, last.action_ids, before, after)
            assert context is not None
        else:
            context = policy.chat.open([{"role": "user", "content": f"{agent}: 84 * 3?"}])
        (out,) = policy.engine.generate([make_request(context, step, 12, 1.0, policy.chat.stop_ids)])
        turns.append(
            Turn(
                agent=agent,
                policy=policy.name,
                step=step,
                turn=turn,
                context_ids=list(context),
                action_ids=list(out.ids),
                logprobs=list(out.logprobs),
                stopped=out.stopped,
                reward=float(step),
                valid=True,
                stratum=("math", agent, turn),
            )
        )
    return Rollout(tuple(turns), task_id="t", topic=topic, seed=0, success=True, score=1.0)


def test_maps():
    separate = PolicyMap.from_spec("separate", TEAM)
    assert (separate.names, separate.trainable) == (TEAM, TEAM)
    shared = PolicyMap.from_spec("shared", TEAM, frozen=["verifier_0"])
    assert (shared.names, shared.of("coder_0"), shared.frozen) == (("shared",), "shared", {"verifier_0"})
    assert shared.trainable == ("shared",)
    explicit = PolicyMap.from_spec(
        {"verifier_0": "judge", "solver_0": "maker", "coder_0": "maker"}, TEAM, frozen=["maker"]
    )
    assert explicit.names == ("maker", "judge")
    assert (explicit.frozen, explicit.trainable) == ({"solver_0", "coder_0"}, ("judge",))


@pytest.mark.parametrize(
    ("spec", "frozen", "message"),
    [
        ("seperate", (), "Did you mean 'separate'"),
        ({"solver_0": "a", "coder_0": "b", "verifyer_0": "c"}, (), "Did you mean 'verifier_0'"),
        ({"solver_0": "a", "coder_0": "b"}, (), r"leaves out \['verifier_0'\]"),
        ({"solver_0": "a", "coder_0": "../b", "verifier_0": "c"}, (), "'../b'"),
        ("separate", ("coder",), "Did you mean 'coder_0'"),
    ],
)
def test_bad_maps_name_the_remedy(spec, frozen, message):
    with pytest.raises(PolicyError, match=message):
        PolicyMap.from_spec(spec, TEAM, frozen)


def test_unknown_agents_and_empty_teams():
    with pytest.raises(PolicyError, match="Did you mean 'coder_0'"):
        PolicyMap.from_spec("separate", TEAM).of("coder_1")
    with pytest.raises(PolicyError, match="no agents"):
        PolicyMap.from_spec("separate", ())


def test_every_policy_is_its_own_copy_and_its_engine_shares_it(chat, model):
    policies = policies_of(PolicyMap.from_spec("separate", TEAM), model, chat)
    assert tuple(policies) == TEAM
    request = make_request(chat.open([{"role": "user", "content": "84?"}]), 0, 8, 0.0)
    before = policies["coder_0"].engine.generate([request])
    with torch.no_grad():
        for parameter in policies["coder_0"].model.parameters():
            parameter.neg_()
    assert policies["coder_0"].engine.generate([request]) != before
    assert policies["solver_0"].engine.generate([request]) == before


def test_members_must_be_those_of_the_map(chat, model):
    policies = policies_of(PolicyMap.from_spec("shared", TEAM), model, chat)
    with pytest.raises(PolicyError, match="needs the policies"):
        Policies(PolicyMap.from_spec("separate", TEAM), list(policies.values()))
    twice: list[Policy] = [policies["shared"]] * 2
    with pytest.raises(PolicyError, match="found"):
        Policies(policies.map, twice)


def test_samples_hold_the_sampled_ids_on_the_generation_context(chat, model):
    policies = policies_of(PolicyMap.from_spec("separate", TEAM), model, chat)
    rollouts = [sampled(policies), sampled(policies)]
    samples = training_samples(policies.map, rollouts)
    assert {name: len(found) for name, found in samples.items()} == dict.fromkeys(TEAM, 2)
    segment = samples["coder_0"][0]
    assert [span.step for span in segment.spans] == [1, 2]
    for turn, span in zip(rollouts[0].turns[1:3], segment.spans, strict=True):
        assert segment.ids[: span.start].tolist() == turn.context_ids
        assert segment.ids[span.start : span.end].tolist() == turn.action_ids


def test_log_probs_of_a_merged_segment_are_those_of_the_learner(chat, model):
    policies = policies_of(PolicyMap.from_spec("shared", TEAM), model, chat)
    for sample in training_samples(policies.map, [sampled(policies)])["shared"]:
        with torch.no_grad():
            logits = policies["shared"].model(torch.tensor(sample.ids[None])).logits[0].float()
        table = torch.log_softmax(logits[:-1], -1).gather(1, torch.tensor(sample.ids[1:, None]))[:, 0].numpy()
        inside = sample.action_mask[1:]
        assert np.abs(table[inside] - sample.logprobs[1:][inside]).max() < 1e-4


def test_frozen_agents_give_no_samples(chat, model):
    separate = policies_of(PolicyMap.from_spec("separate", TEAM, ["coder_0"]), model, chat)
    assert set(training_samples(separate.map, [sampled(separate)])) == {"solver_0", "verifier_0"}
    shared = policies_of(PolicyMap.from_spec("shared", TEAM, ["coder_0"]), model, chat)
    assert [s.agent for s in training_samples(shared.map, [sampled(shared)])["shared"]] == [
        "solver_0",
        "verifier_0",
    ]


def test_a_rollout_of_other_policies_is_refused(chat, model):
    shared = policies_of(PolicyMap.from_spec("shared", TEAM), model, chat)
    separate = policies_of(PolicyMap.from_spec("separate", TEAM), model, chat)
    with pytest.raises(ContextError, match="another run"):
        training_samples(separate.map, [sampled(shared)])


def changed(turn: Turn, **fields: object) -> Turn:
    return dataclasses.replace(turn, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "tamper"),
    [
        ("context", lambda t: changed(t, context_ids=[*t.context_ids[:-1], 9])),
        ("action ids", lambda t: changed(t, action_ids=[*t.action_ids[:-1], 9])),
        ("action ids", lambda t: changed(t, action_ids=[*t.action_ids, 9])),
        ("log-probs", lambda t: changed(t, logprobs=[p - 0.5 for p in t.logprobs])),
        ("reward", lambda t: changed(t, reward=t.reward + 1)),
        ("reward", lambda t: changed(t, valid=False)),
        ("policy", lambda t: changed(t, policy="other")),
    ],
)
def test_any_difference_at_the_border_is_an_error(chat, model, word, tamper):
    policies = policies_of(PolicyMap.from_spec("shared", TEAM), model, chat)
    turns = list(sampled(policies).turns)
    samples = training_samples(policies.map, [Rollout(tuple(turns), "t", "", 0, True, 1.0)])["shared"]
    check_fidelity(turns, samples)
    turns[2] = tamper(turns[2])
    with pytest.raises(ContextError, match=word):
        check_fidelity(turns, samples)


@pytest.mark.parametrize("spec", ["separate", "lora"])
def test_engines_with_weights_of_their_own_change_when_they_are_told_to(chat, model, spec):
    base = tiny_qwen3(chat.tokenizer, Model(hidden=32, heads=2, kv_heads=1, mlp=32), seed=0)
    policies = policies_of(
        PolicyMap.from_spec(spec, TEAM),
        base,
        chat,
        lora=Lora(rank=2, alpha=4, targets=["q_proj"]),
        make_engines=copied_engines,
    )
    for policy in policies.values():
        assert policy.engine.model is not policy.model
        own = dict(policy.engine.model.named_parameters())
        trained = {n: p for n, p in policy.model.named_parameters() if p.requires_grad}
        assert trained
        for name, parameter in policy.model.named_parameters():
            assert (own[name] is parameter) == (name not in trained), "what is frozen is there once"
        with torch.no_grad():
            for parameter in trained.values():
                parameter += 1
        assert not any(torch.equal(own[name], parameter) for name, parameter in trained.items())
    assert policies.sync(3) == {}
    for policy in policies.values():
        assert policy.engine.version == 3
        state = policy.engine.model.state_dict()
        assert all(torch.equal(state[name], value) for name, value in policy.model.state_dict().items())


def test_other_processes_take_part_while_a_trained_policy_s_weights_are_read(chat, model, monkeypatch):
    policy_map = PolicyMap.from_spec("separate", TEAM, frozen=["coder_0"])
    policies = policies_of(policy_map, model, chat)
    seen = []

    @contextmanager
    def around(name):
        seen.append(f"begin {name}")
        yield
        seen.append(f"end {name}")

    policies.around_sync = around
    for name, policy in policies.items():
        monkeypatch.setattr(policy.engine, "load_weights", lambda *_, name=name: seen.append(f"load {name}"))
    trained = [f"{what} {name}" for name in ("solver_0", "verifier_0") for what in ("begin", "load", "end")]
    policies.sync(1)
    assert seen == trained
    seen.clear()
    policies.wake()  # then every engine needs its weights
    policies.sync(2)
    assert seen == [*trained[:3], "load coder_0", *trained[3:]]


def test_policies_of_several_crews_send_at_once_and_those_of_one_in_turn(chat, model, monkeypatch):
    policies = policies_of(PolicyMap.from_spec("separate", TEAM), model, chat)
    policies.crews = {"solver_0": 0, "coder_0": 1, "verifier_0": 1}
    own, crews, seen = threading.get_ident(), threading.Barrier(2, timeout=10), []

    def load(name):
        seen.append((name, threading.get_ident()))
        if name != "verifier_0":
            crews.wait()  # breaks unless the first of both crews are here

    for name, policy in policies.items():
        monkeypatch.setattr(policy.engine, "load_weights", lambda *_, name=name: load(name))
    policies.sync(1)
    threads = dict(seen)
    assert threads["solver_0"] == own != threads["coder_0"] == threads["verifier_0"]
    assert [name for name, _ in seen if name != "solver_0"] == ["coder_0", "verifier_0"]


def test_a_policy_of_another_crew_that_cannot_send_is_an_error(chat, model, monkeypatch):
    policies = policies_of(PolicyMap.from_spec("separate", TEAM), model, chat)
    policies.crews = {name: number for number, name in enumerate(TEAM)}

    def fail(*_):
        raise EngineError("no room")

    monkeypatch.setattr(policies["coder_0"].engine, "load_weights", fail)
    with pytest.raises(EngineError, match="no room"):
        policies.sync(1)


def test_lost_and_doubled_turns_are_errors(chat, model):
    policies = policies_of(PolicyMap.from_spec("shared", TEAM), model, chat)
    turns = sampled(policies).turns
    samples = training_samples(policies.map, [Rollout(turns, "t", "", 0, True, 1.0)])["shared"]
    for held in (samples[:-1], [*samples, samples[0]]):
        with pytest.raises(ContextError, match="contain every sampled step once"):
            check_fidelity(turns, held)
