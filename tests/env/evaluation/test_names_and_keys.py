"""Models' names may hold ``@``, and no option may hold a key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fake_chats import multiplier, speaking
from fake_llm import serving
from mappa_env.cli import main
from mappa_env.coach.llm.address import split_address
from mappa_env.errors import OptionError
from mappa_env.evaluation.chat import Chat
from mappa_env.evaluation.keys import refuse_keys

ENV = "mappa/MathChat-v0"


def evaluate(out: Path, *arguments: str) -> int:
    return main(["eval", ENV, "--sandbox", "null", "--limit", "1", "--out", str(out), *arguments])


@pytest.mark.parametrize("name", ["claude@20240620", "@cf/meta/llama", "a@b@c", "m"])
def test_a_models_name_may_hold_an_at_sign(name: str, tmp_path: Path) -> None:
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        assert evaluate(tmp_path / "a", "--model", name, "--base-url", fake.url) == 0
        assert evaluate(tmp_path / "b", "--model", f"openai:{name}@{fake.url}") == 0
    assert {call.body["model"] for call in fake.calls} == {name}
    assert main(["leaderboard", str(tmp_path / "a"), "--json", str(tmp_path / "rows.json")]) == 0
    assert json.loads((tmp_path / "rows.json").read_text())[ENV][0]["models"] == name


def test_the_address_follows_the_last_at_sign_before_http() -> None:
    assert split_address("m@http://h/v1") == ("m", "http://h/v1")
    assert split_address("m@1@https://h/v1") == ("m@1", "https://h/v1")
    assert split_address("m@http://a@http://b") == ("m@http://a", "http://b")
    assert split_address("m@ftp://x") == ("m", "ftp://x")
    assert split_address("m") == ("m", "")


@pytest.mark.parametrize(
    "extra",
    [
        {"api_key": "X"},
        {"headers": {"Authorization": "Bearer X"}},
        {"headers": {"x-api-key": "X"}},
        {"more": [{"access_token": "X"}]},
        {"note": "sk-" + "a1" * 20},
        {"password": "X"},
    ],
)
def test_an_option_that_looks_like_a_key_is_refused_and_not_quoted(
    extra: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = json.dumps({"name": "openai:m@http://127.0.0.1:9/v1", "extra": extra})
    assert evaluate(tmp_path / "e", "--model", spec) == 2
    words = capsys.readouterr().err
    assert "key_variable" in words
    assert "a1a1" not in words
    assert not (tmp_path / "e").exists()


HEX = "0123456789abcdef0123456789ABCDEF"
KEYS = [
    "gsk_" + "aB3" * 17,
    "xai-" + "aB3" * 20,
    "sk-" + "a1" * 20,
    "sk-proj-" + "a1_" * 10,
    "nvapi-" + "aB3" * 12,
    "AKIA" + "A1B2" * 4,
    "A" + HEX[1:].upper(),
    HEX,
    "Bearer abcdefgh12345678",
    "my key",
    "my_key",
    "",
    "A" * 65,
    "NOT_SET_ANYWHERE",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_in_place_of_a_variables_name_is_written_and_quoted_nowhere(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = json.dumps({"name": "openai:m@http://127.0.0.1:9/v1", "key_variable": key})
    coach = ["--model", "constant:x", "--coach", spec]
    for number, arguments in enumerate(
        (["--model", spec], ["--model", "constant:x", "--agent", f"coder_0={spec}"], coach)
    ):
        assert evaluate(tmp_path / str(number), *arguments) == 2
        said = capsys.readouterr().err
        assert "key" in said
        assert not key or key not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", [key for key in KEYS if len(key) > 20 and len(set(key)) > 1])
@pytest.mark.parametrize("where", ["extra", "name", "of an option", "unknown", "a header"])
def test_keys_of_any_form_are_refused_wherever_they_stand(
    key: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "openai:m@http://127.0.0.1:9/v1"
    spec: dict[str, Any] = {
        "extra": {"name": name, "extra": {"user": [key]}},
        "name": {"name": f"openai:m@http://user:{key}@127.0.0.1:9/v1"},
        "of an option": {"name": name, "extra": {key: 1}},
        "unknown": {"name": name, "budgets": key},
        "a header": {"name": name, "extra": {"headers": {"X-Auth": key}}},
    }[where]
    if where == "of an option" and key.upper() in (HEX.upper(), "A" + HEX[1:].upper()):
        pytest.skip("a field may be called so")
    assert evaluate(tmp_path / "e", "--model", json.dumps(spec)) == 2
    assert evaluate(tmp_path / "e", "--model", "constant:x", "--coach", json.dumps(spec)) == 2
    assert key not in capsys.readouterr().err
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize(
    "url", ["http://me@h/v1", "http://me:pw12@h/v1", "http://h/v1?key=pw12", "http://h/v1#pw12"]
)
def test_an_address_with_a_login_is_refused_and_not_quoted(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coach = json.dumps({"name": "gemini:gemini-3.8-flash", "base_url": url})
    for arguments in (
        ["--model", "m", "--base-url", url],
        ["--model", f"openai:m@{url}"],
        ["--model", "constant:x", "--coach", f"openai:m@{url}"],
        ["--model", "constant:x", "--coach", coach],
    ):
        assert evaluate(tmp_path / "e", *arguments) == 2
        assert "pw12" not in capsys.readouterr().err
    assert not (tmp_path / "e").exists()


def test_the_value_of_a_variable_with_a_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-123456")
    with pytest.raises(OptionError, match="looks like a key"):
        Chat("openai:m@http://127.0.0.1:9/v1", {"extra": {"user": "canary-123456"}})


def test_fields_that_only_sound_like_keys_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {
        "min_tokens": 5,
        "stop_token_ids": [1, 2],
        "skip_special_tokens": False,
        "prompt_cache_key": 3,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    monkeypatch.setenv("MY_KEY", "x")
    Chat("openai:m@http://127.0.0.1:9/v1", {"extra": extra, "key_variable": "MY_KEY"}).close()


KEY = "0123456789abcdef0123456789abcdef012345"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": f"openai:m@http://localhost:1/v1/{KEY}"}, "name has an address with a part that looks"),
        ({"name": f"openai:m@http://localhost:1/{KEY}/v1"}, "must follow /models/"),
        ({"base_url": f"http://localhost:1/v1?user={KEY}"}, "base_url has an address"),
        ({"base_url": f"http://{KEY}@localhost:1/v1"}, "base_url has an address"),
        ({"base_url": "http://h/models/" + "zQ3" * 12}, "base_url has an address"),
        ({"extra": {"authorization_header": "Token abcdefgh12345678"}}, "by its name"),
        ({"extra": {"pwd": "hunter2"}}, "extra.pwd looks like a key by its name"),
        ({"extra": {"db_pwd": "hunter2"}}, "by its name"),
        ({"extra": {"user_key_id": "abc"}}, "by its name"),
        ({"extra": {"header": "Token abcdefgh12345678"}}, "extra.header looks like a key"),
        ({"extra": {"header": "Key abcdefgh12345678"}}, "extra.header looks like a key"),
        ({"extra": {"user": KEY}}, "only an option such as revision may be a hash"),
        ({"extra": {"revision": "zQ3" * 12}}, "extra.revision looks like a key"),
    ],
)
def test_keys_in_parts_of_addresses_and_under_other_names_are_refused(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError, match="key_variable") as found:
        refuse_keys(options, "the model")
    assert said in str(found.value)
    assert not any(word in str(found.value) for word in (KEY, "zQ3zQ3", "hunter2", "12345678"))


@pytest.mark.parametrize(
    "options",
    [
        {"name": "openai:Qwen/Qwen3-4B@http://localhost:8000/v1"},
        {"name": "openai:org/Model-7B-Instruct-v0.3-AWQ-INT4-2024-07-18@https://h.example:8443/a/b/v1"},
        {"name": f"openai:m@http://h/accounts/{KEY}/ai/v1"},
        {"name": f"openai:m@http://h/models/{KEY}/v1"},
        {"name": f"openai:m@http://{KEY}.example/v1"},
        {"name": "openai:m@http://h/0123abcd-0123-4567-89ab-0123456789ab/v1"},
        {"version": KEY, "extra": {"revision": KEY, "commit": KEY[:32], "sha256": KEY}},
        {"version": "zQ3" * 12},
        {"ledger": f"/tmp/{KEY}/ledger.jsonl", "key_variable": "MY_KEY"},
        {"extra": {"system": "Token frequencies matter: give the key terms of basic algebra"}},
        {"extra": {"keywords": ["a"], "author": "x", "tokenizer": "auto", "stop_token": 3}},
        {"extra": {"pwd": "", "user": "someone", "n": 12}},
        {"extra": {"image": "https://example.org/a-very-long-path/that/is/ordinary/and-has-2-numbers.png"}},
    ],
)
def test_names_paths_and_hashes_of_versions_are_no_keys(options: dict[str, Any]) -> None:
    refuse_keys(options, "the model")


@pytest.mark.parametrize("command", ["contamination", "leaderboard"])
def test_a_file_that_cannot_be_written_is_refused_before_any_work(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for target in (tmp_path / "nowhere" / "x.json", tmp_path):
        assert main([command, str(tmp_path / "no evaluation"), "--json", str(target)]) == 2
        words = capsys.readouterr().err
        assert f"--json {target}" in words
        assert "name a file" in words
