"""``mappa-rl export``: the policies of a checkpoint as plain Hugging Face folders, or as PEFT adapters.

Files are copied from the checkpoint's ``model`` and ``adapter`` folders, which hold safetensors and text
alone; nothing is unpickled.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from rich.console import Console

from mappa_rl.commands.console import one_run, say
from mappa_rl.commands.options import add_checkpoint
from mappa_rl.config import load_config
from mappa_rl.config.run_folder import CONFIG, next_folder
from mappa_rl.errors import RunError

HELP = "write a run's policies as Hugging Face folders"
MODEL, ADAPTER, ADAPTER_CONFIG = "model", "adapter", "adapter_config.json"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder of a run")
    add_checkpoint(parser)
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help="folder to write (default: RUN/export-<checkpoint>)"
    )
    parser.add_argument(
        "--adapter", action="store_true", help="export only the LoRA adapters, in PEFT format"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status."""
    folder = one_run(args.folder, "export")
    default = next_folder(folder / f"export-{args.checkpoint}")
    for path in export(folder, args.to or default, args.checkpoint, adapter=args.adapter):
        say(console, str(path))
    return 0


def export(run: Path, to: Path, checkpoint: str = "latest", *, adapter: bool = False) -> list[Path]:
    """Write one folder per policy of ``run`` into ``to`` (new or empty), and return them.

    A model folder holds weights (adapters are merged), config, tokenizer and chat template. ``adapter``
    writes PEFT's format instead: the adapter alone, with the path of its base model.

    Raises:
        RunError: ``to`` is not empty, or the run trained no adapters.
        CheckpointError: the checkpoint is missing or damaged.
    """
    from mappa_rl.learner.checkpoint import Checkpoints
    from mappa_rl.models.pretrained import model_folder
    from mappa_rl.warmstart.warmstart import start_folder

    config = load_config(run / CONFIG)
    if adapter and config.policies.map != "lora":
        raise RunError(
            f"{run} has policies.map={config.policies.map}, so it trained no adapters: export without "
            "--adapter."
        )
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise RunError(f"{to} is not an empty folder: choose another with --to.")
    path = Checkpoints(run / "checkpoints", config.run.keep_checkpoints).intact(checkpoint)
    base, own = start_folder(config, run), config.policies.models
    written = []
    for policy in sorted(path.glob("policies/*")):
        source = policy / (ADAPTER if adapter else MODEL)
        if not source.is_dir():
            raise RunError(
                f"{policy} has no {source.name} folder: an earlier version saved this "
                "checkpoint; train again to export it."
            )
        target = to / policy.name
        shutil.copytree(source, target)
        if adapter:
            settings = json.loads((target / ADAPTER_CONFIG).read_text(encoding="utf-8"))
            started = model_folder(own[policy.name]) if policy.name in own else base
            settings["base_model_name_or_path"] = str(started.resolve())
            (target / ADAPTER_CONFIG).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        written.append(target)
    return written
