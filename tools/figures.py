"""Which published figures are stale: compare what they were measured with to what the checkout holds now.

    python tools/figures.py [--write]

`docs/results/figures.yaml` lists every section of `docs/results/` that holds measurements: the commit, and
what the figures depend on. `configs` are resolved configs as a run's folder holds them (`config.yaml`);
`inputs` are files and folders with their digests. A section is stale when one of them differs now. Then
measure again, or add `stale: what changed since`. `--write` puts the line that says all this under each
heading. Exits 1 if a section is stale without saying so, or its page does not carry the line.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mappa_rl import load_config
from mappa_rl.errors import ConfigError

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
PER_RUN = ("run.out", "run.seed")
"""Keys that differ from run to run of the same recipe."""
LINE = re.compile(r"^(?:Measured at|Stale since) .*(?:\n(?!\n).*)*\n\n", re.MULTILINE)
WIDTH = 12
"""Hexadecimal digits of a digest on a page."""


@dataclass(frozen=True)
class Figures:
    """One section of a page with measurements."""

    page: str
    section: str
    commit: str
    configs: Mapping[str, str]
    """Recipe -> file of the config that was run, in `docs/results/`."""
    inputs: Mapping[str, str]
    """File or folder -> digest when measured."""
    stale: str = ""
    """What has changed since, if that is known and said."""

    @property
    def digest(self) -> str:
        """Of the configs and inputs that were used."""
        configs = {recipe: leaves(read(RESULTS / name)) for recipe, name in self.configs.items()}
        return short(json.dumps([configs, dict(self.inputs)], sort_keys=True).encode())

    @property
    def line(self) -> str:
        """What the page says under the heading."""
        if self.stale:
            return f"Stale since {self.stale} ({self._origin})."
        return f"M{self._origin[1:]}."

    @property
    def _origin(self) -> str:
        return f"measured at commit `{self.commit}`, configuration `{self.digest}`"

    def changes(self) -> Iterator[str]:
        """What differs now from what was measured."""
        for recipe, name in self.configs.items():
            yield from config_changes(recipe, leaves(read(RESULTS / name)))
        for name, measured in self.inputs.items():
            if (now := digest(ROOT / name)) != measured:
                yield f"{name} is {now}, was {measured}"

    def problems(self) -> Iterator[str]:
        """Why this entry and its page do not tell the truth."""
        changes = list(self.changes())
        if changes and not self.stale:
            yield f"{self.page}, {self.section!r} is stale and does not say so: {'; '.join(changes)}"
        if self.line not in section(self.page, self.section).replace("\n", " "):
            yield f"{self.page}, {self.section!r} lacks its line (see --write): {self.line}"


def published() -> list[Figures]:
    """The entries of `figures.yaml`."""
    return [Figures(**entry) for entry in read(RESULTS / "figures.yaml")]


def config_changes(recipe: str, measured: Mapping[str, Any]) -> Iterator[str]:
    """Keys of a recipe whose values differ from those measured. A newer key at its default is no change."""
    try:
        now = leaves(load_config(recipe).model_dump(mode="json"))
    except ConfigError as error:
        yield str(error)
        return
    defaults = leaves(type(load_config(recipe))().model_dump(mode="json"))
    for key in sorted({*measured, *now} - set(PER_RUN)):
        was = measured.get(key, defaults.get(key))
        if now.get(key) != was:
            yield f"{recipe}: {key} is {now.get(key)!r}, was {was!r}"


def leaves(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`, without what differs from run to run."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        found |= leaves(value, f"{name}.") if isinstance(value, Mapping) and value else {name: value}
    return {name: value for name, value in found.items() if name not in PER_RUN}


def digest(path: Path) -> str:
    """Of a file, or of all files in a folder. Comments, docstrings and layout of Python code do not count."""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
        return short("\n".join(f"{each.relative_to(path)} {digest(each)}" for each in files).encode())
    if not path.is_file():
        return "missing"
    return short(
        code(path.read_text(encoding="utf-8")).encode() if path.suffix == ".py" else path.read_bytes()
    )


def code(source: str) -> str:
    """Python code without what does not run."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def short(data: bytes) -> str:
    """The digest that a page shows."""
    return hashlib.sha256(data).hexdigest()[:WIDTH]


def read(path: Path) -> Any:
    """A YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next heading of the same depth."""
    return sections(page).get(heading, "")


def sections(page: str) -> dict[str, str]:
    """Heading of the second depth -> the text under it."""
    parts = re.split(r"^## (.+)\n", (RESULTS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def write(figures: Figures) -> None:
    """Put the line of an entry under its heading, in the place of an older one."""
    path = RESULTS / figures.page
    heading, old = f"## {figures.section}\n", section(figures.page, figures.section)
    new = f"\n{figures.line}\n\n{LINE.sub('', old, count=1).lstrip(chr(10))}"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(heading + old, heading + new, 1), encoding="utf-8")


def main() -> int:
    """Print the state of every section; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the lines into the pages")
    write_lines = parser.parse_args().write
    failed = False
    for figures in published():
        if write_lines:
            write(figures)
        problems = list(figures.problems())
        failed |= bool(problems)
        print(f"{figures.page} {figures.section!r}: {'; '.join(problems) or figures.line}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
