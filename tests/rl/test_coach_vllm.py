"""A real OpenAI-compatible server as the coach: vLLM on the CPU, with a tiny random model.

The model has nothing to say, so no verdict may be worth anything: what is tested is that a real server's
messages are understood, and that its guided answers fill our schema. ``MAPPA_VLLM_PYTHON`` may name the
interpreter of another environment that has vllm or vllm-cpu.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from mappa_env.episode import Episode
from mappa_env.errors import CoachStopped
from mappa_env.partners import Partners
from mappa_env.registration import find_card
from mappa_env.types import Verdict
from mappa_rl.tiny import tiny_qwen3, train_tokenizer

PYTHON = os.environ.get("MAPPA_VLLM_PYTHON") or (sys.executable if importlib.util.find_spec("vllm") else "")
START_S = 400.0
ENVIRONMENT = {
    "TORCH_COMPILE_DISABLE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
}  # fmt: skip
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="neither vllm here nor MAPPA_VLLM_PYTHON"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen3 of 64 wide, whose tokenizer knows the cards' prose."""
    path = tmp_path_factory.mktemp("model")
    texts = [file.read_text() for file in sorted(find_card("mathchat").folder.glob("*.*"))]
    tokenizer = train_tokenizer(texts, 512, "code", 8192)
    tiny_qwen3(tokenizer, hidden=64, mlp=128, max_len=8192).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """Its ``base_url``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "server.log"
    command = [
        PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder),
        "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port),
        "--dtype", "float32", "--max-model-len", "8192", "--max-num-seqs", "8", "--enforce-eager",
        "--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}',
    ]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | ENVIRONMENT
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    try:
        until = time.monotonic() + START_S
        while not _answers(f"http://127.0.0.1:{port}/health"):
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"vLLM did not start: {log.read_text(errors='replace')[-3000:]}")
            time.sleep(1.0)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).status_code == 200
    except requests.RequestException:
        return False


def verdicts(url: str, model: str = "tiny", **options: Any) -> list[Verdict]:
    card = find_card("mathchat")
    coach = {"name": f"openai:{model}@{url}", "deadline_s": 300.0, **options}
    episode = Episode(card, coach=coach, sandbox="calculator", judging="deferred")
    team = Partners(card, "expert", seat=None, prompts="full")
    episode.reset(seed=0)
    team.reset(episode)
    while not episode.over:
        episode.act(team.act(episode))
    episode.close()
    return [action.verdict for action in episode.actions]


def test_guided_answers_fill_the_schema_and_their_quotes_are_checked(server: str, folder: Path) -> None:
    """A bias for the quotation mark ends the strings, which the model alone would never do."""
    from transformers import AutoTokenizer

    mark = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids('"')
    found = verdicts(server, extra={"logit_bias": {str(mark): 50}}, max_output_tokens=1024)
    assert len(found) == 4
    for verdict in found:
        assert verdict.status == "suspect", verdict
        assert verdict.score is not None
        assert 0 <= verdict.score <= 10
        assert verdict.asked is not None
        assert (verdict.asked.calls, verdict.asked.model_version) == (1, "tiny")
        assert verdict.asked.prompt > 100
        assert verdict.asked.output > 10


def test_an_answer_without_an_end_is_no_score(server: str) -> None:
    for verdict in verdicts(server, max_output_tokens=64):
        assert (verdict.status, verdict.score) == ("abstain", None), verdict
        assert "length" in verdict.reasoning


def test_a_model_that_is_not_served_stops_the_run(server: str) -> None:
    with pytest.raises(CoachStopped, match=r"404.*does not exist"):
        verdicts(server, model="other")
