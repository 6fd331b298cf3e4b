"""Nobody writes the words that ``docs/glossary.yaml`` bans: in names, config keys, metrics or prose."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from mappa_rl.config import Config
from mappa_rl.config.overrides import keys
from paths import ROOT

GLOSSARY = yaml.safe_load((ROOT / "docs" / "glossary.yaml").read_text(encoding="utf-8"))
BANNED = GLOSSARY["banned"]
PACKAGES = ("mappa_env", "mappa_rl", "envs_registry")
CODE = (*PACKAGES, "benchmarks", "examples", "tools", "tests")
PHRASES = {
    re.compile(rf"\b(?:{phrase})\b", re.IGNORECASE): instead for phrase, instead in BANNED["phrases"].items()
}


NAMES = re.compile(rf"\b_*(?:{'|'.join(BANNED['identifiers'])})\b")
"""What a file with a banned name must contain; parsing the others would only take time."""


OLD_WORDS = ("mappa_rl/config/renamed.py", "docs/glossary.yaml", "tests/test_glossary.py")
"""Their business is banned words."""
READ_BY_COACHES = "coach.yaml"
"""Its questions are prompts; prompts in ``*.jinja`` are not searched either."""


def files(folder: str, *suffixes: str) -> list[Path]:
    """The files of a folder, with those of its subfolders; of "." only its own."""
    found = (ROOT / folder).glob("*") if folder == "." else (ROOT / folder).rglob("*")
    return sorted(
        path
        for path in found
        if path.suffix in suffixes
        and path.name != READ_BY_COACHES
        and path.relative_to(ROOT).as_posix() not in OLD_WORDS
    )


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.keyword(arg=str(name)) | ast.alias(asname=str(name)):
            yield name


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page, or the string literals, comments and names of a module.

    Literals without a space are names or data. Names are read as words.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, " ".join(node.value.split())
        for name in names(node):
            yield node.lineno, name.replace("_", " ")  # type: ignore[attr-defined]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def banned_prose(path: Path) -> list[tuple[int, str, str]]:
    """(line, what is banned, what to write instead) of every banned phrase."""
    # Without a match here, no literal, comment or name has one, and the file need not be parsed.
    words = re.sub(r"(?:[\s_\"'#]|\\[nrt]|\b[bfru]+(?=[\"']))+", " ", path.read_text(encoding="utf-8"))
    phrases = [phrase for phrase in PHRASES if phrase.search(words)]
    return [
        (line, match[0], PHRASES[phrase])
        for line, text in (prose(path) if phrases else ())
        for phrase in phrases
        if (match := phrase.search(text))
    ]


def test_terms_have_meanings() -> None:
    assert all(isinstance(meaning, str) and meaning for meaning in GLOSSARY["terms"].values())


def test_no_name_in_the_code_is_banned() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name} (write {BANNED['identifiers'][name.lstrip('_')]})"  # type: ignore[attr-defined]
        for folder in CODE
        for path in files(folder, ".py")
        if NAMES.search(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree(path))
        for name in names(node)
        if name.lstrip("_") in BANNED["identifiers"]
    ]
    assert not found, "\n".join(found)


def test_no_configuration_key_is_banned() -> None:
    parts = {part for key, _, _ in keys(Config) for part in key.split(".")}
    assert not parts & set(BANNED["identifiers"])


def test_no_metric_is_banned() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    logged = {
        name
        for row in re.findall(r"^\|([^|]*)\|", page, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", row)
    }
    assert len(logged) > 30
    parts = {part for name in logged for part in re.split(r"[/_]", name)}
    assert not parts & set(BANNED["metrics"])


@pytest.mark.parametrize("folder", [*CODE, "docs", "."])
def test_no_sentence_has_a_banned_phrase(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match!r} (write: {instead})"
        for path in files(folder, ".md", ".py", ".yaml", ".yml")
        for line, match, instead in banned_prose(path)
    ]
    assert not found, "\n".join(found)


def test_the_test_finds_what_is_banned(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("A run that was spoiled is mended anew.\nHe amended it.", encoding="utf-8")
    assert [line for line, _, _ in banned_prose(page)] == [1, 1, 1]
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("a: 1\nb: 2  # is mended\n", encoding="utf-8")
    assert [line for line, _, _ in banned_prose(recipe)] == [2]
    module = tmp_path / "module.py"
    module.write_text(
        "def is_measured_anew():\n"
        "    x = 'so many '  # or mend\n"
        "    return 'so many ' f\"as {x}\" 'a line\\nspoiled'\n"
        "    y = 'anew'\n",
        encoding="utf-8",
    )
    assert sorted((line, match) for line, match, _ in banned_prose(module)) == [
        (1, "anew"), (2, "mend"), (3, "so many as"), (3, "spoiled"),
    ]  # fmt: skip
    text = "def f(overdue): return self.rung + _seat"
    assert NAMES.findall(text) == ["overdue", "rung", "_seat"]
    code = ast.parse(text)
    found = {name.lstrip("_") for node in ast.walk(code) for name in names(node)}
    assert found & set(BANNED["identifiers"]) == {"overdue", "rung", "seat"}
