"""``docs/architecture.md`` names what exists, and all that a reader would look for."""

from __future__ import annotations

import ast
import re
import tomllib
from graphlib import TopologicalSorter

import pytest

from paths import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = {path.rstrip("/") for path in re.findall(r"`((?:mappa_env|mappa_rl|envs_registry)/[^`]*)`", PAGE)}


def test_every_path_on_the_page_exists() -> None:
    assert len(NAMED) > 60
    assert [path for path in sorted(NAMED) if not (ROOT / path).exists()] == []


def test_every_folder_and_file_at_the_top_of_a_package_is_on_the_page() -> None:
    for package in ("mappa_env", "mappa_rl"):
        there = {
            f"{package}/{path.name}"
            for path in (ROOT / package).iterdir()
            if (path.suffix == ".py" and path.name != "__init__.py") or (path / "__init__.py").is_file()
        }
        assert there - NAMED == set()


@pytest.mark.parametrize("package", ["mappa_env", "mappa_rl"])
def test_the_page_lists_folders_in_the_order_of_the_import_contract(package: str) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c.get("containers") == [package])
    floor = {name.strip(): i for i, layer in enumerate(layers) for name in layer.split("|")}
    rows = re.findall(rf"^\| `{package}/(\w+)", PAGE, re.MULTILINE)
    assert len(rows) > 10
    assert [floor[name] for name in rows] == sorted(floor[name] for name in rows)


def test_the_files_of_the_config_import_one_way() -> None:
    """Imports for type hints count too."""
    files = (ROOT / "mappa_rl" / "config").glob("*.py")
    known = {f"mappa_rl.config.{path.stem}": path for path in files if path.stem != "__init__"}
    graph = {
        name: {
            node.module
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and node.module in known
        }
        for name, path in known.items()
    }
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert order.index("mappa_rl.config.checks") < order.index("mappa_rl.config.schema")
