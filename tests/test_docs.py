"""Every page links to what exists, and names config keys, recipes and commands that exist."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

import mappa_env
from mappa_env import cli as env_cli
from mappa_rl import cli as rl_cli
from mappa_rl.config import Config
from mappa_rl.config.overrides import keys
from mappa_rl.config.schema import recipe_names
from paths import ROOT

PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
HISTORY = ("CHANGELOG.md",)  # names what is gone
KEYS = {key for key, _, _ in keys(Config)}
SECTIONS = {key.split(".")[0] for key in KEYS if "." in key}
FILES = ("jsonl", "json", "yaml", "py", "md", "html")
FREE = ("agents", "options", "lr", "coach", "shaping")
"""Keys that hold a mapping: what follows them is the user's."""


def test_every_linked_page_and_heading_exists() -> None:
    found = [
        f"{page.relative_to(ROOT)} links to {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not resolves(page, target)
    ]
    assert not found, "\n".join(found)


def test_every_config_key_on_a_page_exists() -> None:
    found = [
        f"{page.relative_to(ROOT)}: {key}"
        for page in PAGES
        if page.name not in HISTORY
        for key in keys_named(page.read_text(encoding="utf-8"))
        if key not in KEYS
    ]
    assert not found, "\n".join(found)


def test_every_command_and_option_on_a_page_exists() -> None:
    programs = {"mappa-env": env_cli.parser(), "mappa-rl": rl_cli.make_parser()}
    found = [
        f"{page.relative_to(ROOT)}: {program} {words}: {wrong}"
        for page in PAGES
        for program, words in re.findall(
            r"\b(mappa-env|mappa-rl) ([a-z-][^\n|`#]*)", code_of(page.read_text(encoding="utf-8"))
        )
        if (wrong := unknown(programs[program], words.split()))
    ]
    assert not found, "\n".join(found)


def test_every_recipe_on_a_page_exists() -> None:
    named = {
        recipe
        for page in PAGES
        for recipe in re.findall(
            r"mappa-rl (?:train|shape|generate) ([a-z]\w*)\b", code_of(page.read_text(encoding="utf-8"))
        )
    }
    assert "demo" in named
    assert named <= set(recipe_names())


def test_the_tests_find_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Its `heading`, here\n[a](page.md#its-heading-here) `algo.kl_coeff=1 run.steps=2`")
    assert resolves(page, "page.md#its-heading-here")
    assert resolves(page, "#its-heading-here")
    assert not resolves(page, "#heading")
    assert not resolves(page, "none.md")
    assert unknown(env_cli.parser(), ["coach", "bench", "--cards"]) == "--cards"
    assert unknown(env_cli.parser(), ["coach", "bunch"]) == "bunch"
    assert unknown(env_cli.parser(), ["play", "mappa/DSBench-v0", "--team", "faulty"]) == ""
    assert list(keys_named(page.read_text())) == ["algo.kl_coeff", "run.steps"]


def unknown(parser: argparse.ArgumentParser, words: list[str]) -> str:
    """The first word that is neither a command nor an option of ``parser``, where it should be one."""
    for word in words:
        if word.startswith("--"):
            if word.split("=")[0] not in parser._option_string_actions:
                return word
            continue
        choices = [each.choices for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        if choices and word not in choices[0]:
            return word
        parser = choices[0][word] if choices else parser
    return ""


def resolves(page: Path, target: str) -> bool:
    """Whether a link on ``page`` leads to a file and, after ``#``, to one of its headings."""
    path, _, anchor = target.partition("#")
    linked = page.parent / path if path else page
    return linked.exists() and (not anchor or anchor in anchors(linked))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code_of(text: str) -> str:
    """The code on a page: blocks and spans in backticks, one a line, without comments."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    spans = re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    code = "\n".join([*blocks, *(" ".join(span.split()) for span in spans)])
    return re.sub(r"(?m)(?:^|\s)#.*$", "", code)


def keys_named(text: str) -> Iterator[str]:
    """Config keys in the code of a page: ``section.key``, alone or with a value."""
    for word in re.findall(r"(?<![\w./])([a-z]+\.[a-z_]+(?:\.[\w<>]+)*)(?=[=:,;\s]|$)", code_of(text)):
        section, key, *rest = word.split(".")
        if section in SECTIONS and key not in FILES and not (rest and key not in FREE):
            yield f"{section}.{key}"


def test_the_citation_has_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == mappa_env.__version__
