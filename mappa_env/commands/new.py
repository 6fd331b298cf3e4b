"""``mappa-env new``: copies a shipped card to a folder of your own, to edit."""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import yaml

import envs_registry
from mappa_env.cards import Card, merged, read_card
from mappa_env.commands._shared import command
from mappa_env.errors import OptionError, nearest
from mappa_env.registration import NAMESPACE

TOPOLOGIES = {
    "single": "math_single",
    "chain": "mathchat",
    "debate": "math_debate",
    "mixture": "math_mixture",
    "manager": "math_manager",
    "refine": "math_refine",
    "data-single": "dsbench_single",
    "data-chain": "dsbench_sprint",
    "data-manager": "dsbench_manager",
}
"""What ``--from`` takes -> the folder of the shipped card."""
SETTINGS = {
    **dict.fromkeys(("debate", "manager", "refine"), ("rollout.max_context=512",)),
    "data-manager": ("rollout.max_context=1536", "model.max_len=1536"),
}
"""Topology -> settings beside the recipe: room for the longest conversation of an agent that returns."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def add(commands: Any) -> None:
    """Add ``new`` to ``commands``."""
    parser = command(commands, "new", run, "copy a shipped card to a folder of your own, to edit")
    parser.add_argument("folder", metavar="FOLDER", help="the folder to create; its name becomes the id")
    parser.add_argument(
        "--from", dest="topology", required=True, metavar="TOPOLOGY", help=", ".join(TOPOLOGIES)
    )


def run(args: argparse.Namespace) -> int:
    """Create the folder and print what to do next. Returns 0. Raises OptionError."""
    folder, topology = Path(args.folder), args.topology
    if topology not in TOPOLOGIES:
        raise OptionError(
            f"--from {topology!r} is not a topology; choose from {', '.join(TOPOLOGIES)}."
            + nearest(topology, TOPOLOGIES)
        )
    card = create(folder, envs_registry.ROOT / TOPOLOGIES[topology])
    recipe = "demo_dsbench" if topology.startswith("data-") else "demo"
    settings = "".join(f" {setting}" for setting in SETTINGS.get(topology, ()))
    shown = args.folder if folder.is_absolute() else f"./{folder.as_posix()}"
    print(f"{folder} is {NAMESPACE}/{card.id}: {card.summary}")
    print("Edit card.yaml, prompts/ and rubric.yaml (docs/cards.md explains them). Then:\n")
    print(f"  mappa-env check {shown}")
    print(f"  mappa-env play {shown} --team faulty")
    print(f"  mappa-rl train {recipe} env.id={shown}{settings} --dry-run")
    return 0


def create(folder: Path, source: Path) -> Card:
    """Copy the card in ``source`` to ``folder``, with all that it inherits, under an id made of its name.

    The folder is written whole or not at all. Raises OptionError if it exists or cannot be written, or if its
    name gives no id that is free.
    """
    if folder.exists() or folder.is_symlink():
        raise OptionError(f"{str(folder)!r} exists: name a folder that does not exist yet.")
    name = folder.name
    if not _NAME.fullmatch(name):
        raise OptionError(
            f"the folder's name {name!r} gives no id: use letters, digits, '_' and '-', and begin with a "
            "letter."
        )
    new_id = "".join(part[:1].upper() + part[1:] for part in re.split("[_-]+", name)) + "-v0"
    if f"{NAMESPACE}/{new_id}" in gymnasium.registry:
        raise OptionError(
            f"the id {NAMESPACE}/{new_id} is taken: give the folder another name than {name!r}."
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}.") as place:
            draft = Path(place) / name
            _write(draft, source, new_id)
            draft.rename(folder)
    except OSError as error:
        raise OptionError(f"{str(folder)!r} cannot be written: {error}") from None
    return read_card(folder)


def _write(draft: Path, source: Path, new_id: str) -> None:
    card, keys = read_card(source), merged(source)[0]
    for (length, role), path in card.prompt_files.items():
        _copy(path, draft / "prompts" / length / f"{role}.jinja")
    coach = keys.get("coach") or {}
    if card.rubric is not None:
        _copy(card.rubric, draft / coach["rubric"])
    if card.coach is not None:
        _copy(card.coach, draft / coach["questions"])
        template = yaml.safe_load(card.coach.read_text(encoding="utf-8"))["template"]
        _copy(card.coach.parent / template, (draft / coach["questions"]).parent / template)
    title = re.sub("[_-]+", " ", draft.name).capitalize()
    (draft / "card.yaml").write_text(_card_text(source, keys, new_id, title), encoding="utf-8")
    readme = (source / "README.md").read_text(encoding="utf-8")
    readme = re.sub(r"\A# .*", f"# {title}", readme.replace(f"{NAMESPACE}/{card.id}", f"./{draft.name}"))
    (draft / "README.md").write_text(readme, encoding="utf-8")


def _card_text(source: Path, keys: dict[str, Any], new_id: str, title: str) -> str:
    """The text of the card with its new names, and the keys that it inherits in place of ``extends``."""
    text = (source / "card.yaml").read_text(encoding="utf-8")
    own = yaml.safe_load(text)
    text = re.sub(r"^extends:.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^id:.*$", f"id: {new_id}", text, flags=re.MULTILINE)
    title = yaml.safe_dump(title, width=1000).splitlines()[0]  # quoted where a word means something in YAML
    text = re.sub(r"^title:.*$", f"title: {title}", text, flags=re.MULTILINE)
    inherited = {key: value for key, value in keys.items() if key not in own}
    if not inherited:
        return text
    return f"{text.rstrip()}\n" + yaml.safe_dump(inherited, sort_keys=False, default_flow_style=None)


def _copy(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)
