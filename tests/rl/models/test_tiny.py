"""Tiny tokenizers round-trip any text and keep numbers and names the same tokens wherever they stand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from mappa_rl.config import Model
from mappa_rl.models.tiny import SPECIALS, tiny_qwen3, train_tokenizer

MATHS = [
    "gcd of 84 and 70? 3 * (41 - 7) = 102",
    "plan: gcd(84, 70)\n```python\nprint(gcd(84, 70))\n```",
    "result: 14\nanswer: \\boxed{14} x^2 - 5x + 6 = 0",
] * 20
CODE = [
    "id: 'uid' target: 'quality'\nnum: age size rooms",
    "import pandas as pd\na = pd.read_csv('train.csv')\ny = a.pop('quality')\na = a.drop(columns=['uid'])",
    "b = pd.get_dummies(b).reindex(columns=a.columns, fill_value=0)\nprint('Saved', a.shape, b.shape)",
] * 20
TOKENIZERS = {
    "math": train_tokenizer(MATHS, Model(vocab_size=320)),
    "code": train_tokenizer(CODE, Model(vocab_size=420, tokenizer_style="code")),
}


def pieces(style: str, text: str) -> list[str]:
    tokenizer = TOKENIZERS[style]
    return [tokenizer.decode([i]) for i in tokenizer.encode(text, add_special_tokens=False)]


@pytest.mark.parametrize("style", ["math", "code"])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_round_trips(style, text):
    tokenizer = TOKENIZERS[style]
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


@pytest.mark.parametrize("style", ["math", "code"])
@pytest.mark.parametrize("before", ["", " ", "(", "\n", "'", '"', "{", "=", "-", ",", "[", "x "])
@pytest.mark.parametrize("after", ["", " ", ")", "\n", "'", "}", ",", "*"])
def test_a_number_is_the_same_digits_in_every_place(style, before, after):
    got = pieces(style, f"{before}407{after}")
    where = got.index("4")
    assert got[where : where + 3] == ["4", "0", "7"]


@pytest.mark.parametrize("name", ["uid", "quality", "X_train.pkl", "mystery_7"])
def test_a_quoted_name_is_the_same_tokens_in_prompt_and_code(name):
    tokenizer = TOKENIZERS["code"]
    plain = tokenizer.encode(name, add_special_tokens=False)
    for text in (
        f"id: '{name}' target",
        f"['{name}']",
        f"columns=['{name}'])",
        f"open('{name}', 'rb')",
        f"{{'{name}': y",
    ):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert any(ids[i : i + len(plain)] == plain for i in range(len(ids))), text


def test_code_style_keeps_dotted_names_whole_and_maths_style_isolates_symbols():
    assert " pd.read_csv" in pieces("code", "a = pd.read_csv('train.csv')")
    assert pieces("math", "gcd(84)))") == ["gcd", "(", "8", "4", ")", ")", ")"]
    assert pieces("math", "\\boxed{14}") == ["\\boxed", "{", "1", "4", "}"]


def test_special_tokens_are_single_and_known():
    tokenizer = TOKENIZERS["math"]
    assert [tokenizer.convert_tokens_to_ids(t) for t in SPECIALS] == list(range(5))
    assert set(tokenizer.all_special_tokens) == set(SPECIALS)
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|pad|>", "<|end|>")
    chat = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == (
        "<|system|>a<|user|>b<|assistant|>"
    )
    chat.append({"role": "assistant", "content": "c"})
    assert tokenizer.apply_chat_template(chat, tokenize=False).endswith("<|assistant|>c<|end|>")


def test_training_is_deterministic_and_survives_the_disk(tmp_path):
    tokenizer = TOKENIZERS["math"]
    assert train_tokenizer(MATHS, Model(vocab_size=320)).get_vocab() == tokenizer.get_vocab()
    assert 256 + len(SPECIALS) <= len(tokenizer) <= 320
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.chat_template == tokenizer.chat_template
    text = "plan: 84 * 3\n\\boxed{é}"
    assert again.encode(text, add_special_tokens=False) == tokenizer.encode(text, add_special_tokens=False)
    assert again.eos_token_id == tokenizer.eos_token_id


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="greater than or equal to 261"):
        Model(vocab_size=260)
    with pytest.raises(ValueError, match="'math' or 'code'"):
        Model(tokenizer_style="prose")  # type: ignore[arg-type]


def test_tiny_model():
    tokenizer = TOKENIZERS["math"]
    state = torch.random.get_rng_state()
    model = tiny_qwen3(tokenizer, Model(), seed=4)
    assert torch.equal(state, torch.random.get_rng_state())
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model.num_parameters() == 295_680 + 128 * len(tokenizer)
    assert model.model.layers[0].mlp.up_proj.weight.std().item() == pytest.approx(0.08, rel=0.02)
    assert model.config.rope_parameters["rope_theta"] == 1000.0
    ids = (model.config.eos_token_id, model.config.pad_token_id, model.generation_config.eos_token_id)
    assert ids == (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id)
    same, other = tiny_qwen3(tokenizer, Model(), seed=4), tiny_qwen3(tokenizer, Model(), seed=5)
    assert torch.equal(same.lm_head.weight, model.lm_head.weight)
    assert not torch.equal(other.lm_head.weight, model.lm_head.weight)
