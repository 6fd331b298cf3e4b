"""``mappa-rl export``: the policies of a checkpoint as plain Hugging Face folders, or as PEFT adapters.

Files are copied from the checkpoint's ``model`` and ``adapter`` folders, which hold safetensors and text
alone; nothing is unpickled.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from mappa_rl.checkpoint import Checkpoints
from mappa_rl.config import load_config
from mappa_rl.errors import RunError
from mappa_rl.runs import CONFIG
from mappa_rl.warmstart import start_folder

MODEL, ADAPTER, ADAPTER_CONFIG = "model", "adapter", "adapter_config.json"


def export(run: Path, to: Path, checkpoint: str = "latest", *, adapter: bool = False) -> list[Path]:
    """Write one folder per policy of ``run`` into ``to`` (new or empty), and return them.

    A model folder has weights (an adapter's are merged), config, tokenizer and chat template. With
    ``adapter`` PEFT's own format: the adapter alone, and where its base is. Raises RunError, CheckpointError.
    """
    config = load_config(run / CONFIG)
    if adapter and config.policies.map != "lora":
        raise RunError(
            f"{run} has policies.map={config.policies.map}, so it trained no adapters: export without "
            "--adapter."
        )
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise RunError(f"{to} is not an empty folder: choose another with --to.")
    path = Checkpoints(run / "checkpoints").intact(checkpoint)
    base = start_folder(config, run)
    written = []
    for policy in sorted(path.glob("policies/*")):
        source = policy / (ADAPTER if adapter else MODEL)
        if not source.is_dir():
            raise RunError(f"{policy} has no {source.name} folder: an earlier version saved this checkpoint.")
        target = to / policy.name
        shutil.copytree(source, target)
        if adapter:
            settings = json.loads((target / ADAPTER_CONFIG).read_text(encoding="utf-8"))
            settings["base_model_name_or_path"] = str(base.resolve())
            (target / ADAPTER_CONFIG).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        written.append(target)
    return written
