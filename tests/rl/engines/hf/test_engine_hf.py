"""The plain engine: exact log-probs, draws that ignore the neighbours, stops, limits, weights."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
import torch
from transformers import BloomConfig, LlamaConfig, LlamaForCausalLM, MistralConfig, Qwen3ForCausalLM

from engine_helpers import STOP, make_request, make_requests, plain_logprobs, worst_difference
from mappa_rl.engines import Engine
from mappa_rl.engines.hf.context import longest_text
from mappa_rl.engines.hf.engine import HFEngine
from mappa_rl.errors import EngineError, EngineMemoryError
from small_qwen import VOCAB, small_qwen


def qwen(seed: int = 0, init: float = 0.3, max_len: int = 96) -> Qwen3ForCausalLM:
    return small_qwen(seed, initializer_range=init, max_position_embeddings=max_len)


def llama() -> LlamaForCausalLM:
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        intermediate_size=48,
        initializer_range=0.3,
        max_position_embeddings=96,
        attn_implementation="eager",
    )
    return LlamaForCausalLM(config)


@pytest.mark.parametrize("make", [qwen, llama])
@pytest.mark.parametrize("temperature", [1.0, 0.6, 0.0])
def test_logprobs_are_those_of_a_plain_forward(make, temperature):
    model = make()
    asked = make_requests(temperature=temperature)
    done = HFEngine(model, max_batch=16).generate(asked)
    assert all(len(out.ids) == len(out.logprobs) >= 1 for out in done)
    assert worst_difference(model, asked, done) < 1e-4


def test_a_draw_depends_on_its_seed_alone():
    engine = HFEngine(qwen())
    asked = make_requests()
    together = engine.generate(asked)
    alone = [engine.generate([request])[0] for request in asked]
    reordered = HFEngine(qwen(), max_batch=7).generate(asked[::-1])[::-1]
    assert [g.ids for g in together] == [g.ids for g in alone] == [g.ids for g in reordered]
    again = make_request(asked[0].ids, seed=99, max_tokens=20, stop_ids=(STOP,))
    assert engine.generate([again])[0].ids != together[0].ids


def test_stops_limits_and_order():
    engine = HFEngine(qwen())
    asked = [make_request((2, 3, 4 + i % 5), i, 1 + i % 23, 1.0, (STOP, 5)) for i in range(80)]
    out = engine.generate(asked)
    assert {g.stopped for g in out} == {"eos", "length"}
    for request, g in zip(asked, out, strict=True):
        ends = [t in request.stop_ids for t in g.ids]
        assert not any(ends[:-1])
        assert (g.stopped == "eos") == ends[-1]
        assert len(g.ids) == request.max_tokens if g.stopped == "length" else len(g.ids) <= request.max_tokens


def test_stop_ids_are_per_request_and_may_be_empty():
    engine = HFEngine(qwen())
    free = make_request((2, 3), 5, 40, 1.0, ())
    ids = engine.generate([free])[0].ids
    assert len(ids) == 40
    stopped = engine.generate([free, make_request((2, 3), 5, 40, 1.0, (ids[6],))])
    assert stopped[0].ids == ids
    assert stopped[1].ids == ids[: ids.index(ids[6]) + 1]
    assert stopped[1].stopped == "eos"


def test_samples_follow_the_distribution():
    model = qwen(init=0.15)
    asked = [make_request((2, 3, 4), seed, 1, 0.8) for seed in range(4000)]
    counts = np.bincount([g.ids[0] for g in HFEngine(model, 512).generate(asked)], minlength=VOCAB)
    with torch.no_grad():
        expected = torch.softmax(model(torch.tensor([[2, 3, 4]])).logits[0, -1] / 0.8, -1).numpy() * 4000
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < 107  # 99.95 % quantile at 63 degrees of freedom


def test_greedy_takes_the_most_likely_token_whatever_the_seed():
    model = qwen()
    first, second = HFEngine(model).generate([make_request((4, 5, 6), s, 8, 0.0, (STOP,)) for s in (1, 2)])
    assert first.ids == second.ids
    with torch.no_grad():
        assert first.ids[0] == model(torch.tensor([[4, 5, 6]])).logits[0, -1].argmax().item()


def test_cache_grows_past_its_first_room():
    model = qwen(max_len=400)
    asked = [make_request((2, 3), 0, 300), make_request((2,), 1, 90)]
    out = HFEngine(model).generate(asked)
    assert [len(g.ids) for g in out] == [300, 90]
    assert worst_difference(model, asked[:1], out[:1]) < 1e-4


def test_max_tokens_is_cut_to_the_room_left():
    (out,) = HFEngine(qwen(max_len=32)).generate([make_request(tuple(range(2, 30)), 0, 100, 1.0)])
    assert (len(out.ids), out.stopped) == (4, "length")


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (make_request((), 0, 5), "0 tokens"),
        (make_request((2,) * 96, 0, 5), "96 tokens"),
        (make_request((2,), 0, 0), "max_tokens=0"),
        (make_request((2,), 0, 5, -1.0), "temperature=-1.0"),
        (make_request((2,), 0, 5, float("nan")), "temperature=nan"),
    ],
)
def test_bad_requests_are_refused(request_, word):
    with pytest.raises(EngineError, match=word):
        HFEngine(qwen()).generate([request_])


def test_no_requests_no_answers():
    assert HFEngine(qwen()).generate([]) == []


def test_the_shared_module_is_left_as_it_was_and_still_trains():
    model = qwen().train()
    engine = HFEngine(model)
    engine.generate(make_requests(4))
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    model(torch.tensor([[2, 3, 4]]), labels=torch.tensor([[2, 3, 4]])).loss.backward()
    before = engine.generate(make_requests(4, 0.0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.neg_()
    engine.load_weights(model)
    assert engine.version == 1
    assert [g.ids for g in engine.generate(make_requests(4, 0.0))] != [g.ids for g in before]


def test_weights_are_copied_from_another_module_or_state_dict():
    engine, teacher = HFEngine(qwen(0)), qwen(1)
    wanted = HFEngine(teacher).generate(make_requests(4))
    engine.load_weights(teacher)
    assert engine.generate(make_requests(4)) == wanted
    engine.load_weights(qwen(0).state_dict())
    assert engine.generate(make_requests(4)) != wanted
    engine.load_weights(teacher.state_dict(), version=7)
    assert (engine.generate(make_requests(4)) == wanted, engine.version) == (True, 7)
    with pytest.raises(EngineError, match="do not fit"):
        engine.load_weights(llama())


def test_only_models_it_can_serve():
    assert isinstance(HFEngine(qwen()), Engine)
    with pytest.raises(EngineError, match="max_batch=0"):
        HFEngine(qwen(), max_batch=0)
    config = qwen().config
    config.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(EngineError, match=r"not \['linear_attention'\]"):
        longest_text(config)
    config = qwen().config
    config.attn_logit_softcapping = 30.0
    with pytest.raises(EngineError, match="soft-capped"):
        HFEngine(Qwen3ForCausalLM(config))


def test_a_window_bounds_texts_where_a_config_names_it_without_layer_types():
    assert longest_text(MistralConfig(max_position_embeddings=96, sliding_window=24)) == 24
    assert longest_text(MistralConfig(max_position_embeddings=96, sliding_window=None)) == 96
    assert longest_text(BloomConfig()) > 10**9  # ALiBi: no bound


def test_windowed_layers_play_as_the_model_does_up_to_the_window():
    window = 24
    config = qwen().config
    config.layer_types, config.sliding_window = ["full_attention", "sliding_attention"], window
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config)
    engine = HFEngine(model)
    assert engine.max_len == window
    asked = make_request((5, 9, 2, 7), 3, max_tokens=50)
    (done,) = engine.generate([asked])
    assert len(done.ids) == window - 4
    np.testing.assert_allclose(done.logprobs, plain_logprobs(model, asked, done.ids), atol=1e-5)
    with pytest.raises(EngineError, match=f"within {window} tokens"):
        engine.generate([make_request(range(2, 2 + window), 3, max_tokens=1)])


def test_submitted_requests_get_what_a_batch_gets():
    engine, asked = HFEngine(qwen()), make_requests(12)
    futures = [engine.submit(request) for request in asked]
    for future, wanted in zip(futures, HFEngine(qwen()).generate(asked), strict=True):
        found = future.result(timeout=60)
        assert (found.ids, found.stopped, found.version) == (wanted.ids, wanted.stopped, 0)
        np.testing.assert_allclose(found.logprobs, wanted.logprobs, atol=1e-5)
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.submit(asked[0]).result(timeout=60)


def test_an_error_reaches_the_one_who_waits_and_the_queue_goes_on():
    engine = HFEngine(qwen())
    with pytest.raises(EngineError, match="max_tokens=0"):
        engine.submit(make_request((2,), 0, 0)).result(timeout=60)
    assert engine.submit(make_request((2,), 0, 3)).result(timeout=60).ids
    engine.close()


def test_abort_ends_what_is_under_way_with_what_it_has():
    model = qwen(max_len=4000)
    engine = HFEngine(model, max_batch=2)
    started = threading.Event()
    hook = model.register_forward_hook(lambda *_: started.set())
    futures = [engine.submit(make_request((2, 3), seed, 3900)) for seed in range(4)]
    assert started.wait(60)
    engine.abort()
    done = [future.result(timeout=60) for future in futures]
    hook.remove()
    assert {generation.stopped for generation in done} == {"abort"}
    assert all(len(g.ids) == len(g.logprobs) < 3900 for g in done)
    assert engine.submit(make_request((2, 3), 0, 3)).result(timeout=60).stopped == "length"
    engine.close()


def test_top_p_keeps_the_fewest_most_likely_tokens():
    model = qwen()
    prompt, top_p = (4, 9, 17), 0.6
    with torch.no_grad():
        table = torch.softmax(model(input_ids=torch.tensor([prompt])).logits[0, -1].double(), -1)
    ranked, kept, mass = sorted(range(VOCAB), key=lambda t: -table[t]), set(), 0.0
    for token in ranked:
        kept.add(token)
        mass += float(table[token])
        if mass >= top_p:
            break
    done = HFEngine(model, 512).generate([make_request(prompt, s, 1, top_p=top_p) for s in range(400)])
    assert {g.ids[0] for g in done} <= kept < set(range(VOCAB))
    for g in done:
        assert g.logprobs[0] == pytest.approx(float(math.log(table[g.ids[0]] / mass)), abs=1e-4)


def test_a_batch_that_does_not_fit_names_what_to_lower_and_the_engine_goes_on() -> None:
    model = qwen(max_len=10**16).eval()
    engine = HFEngine(model)
    with pytest.raises(EngineMemoryError, match=r"2 texts of up to 1000000000000002 tokens.*lockstep_groups"):
        engine.generate([make_request((2, 3), 0, 10**15), make_request((2, 3), 1, 4)])
    assert (model.config._attn_implementation, model.training) == ("sdpa", False)
    assert len(engine.generate([make_request((2, 3), 1, 4)])[0].ids) == 4
    engine.close()
