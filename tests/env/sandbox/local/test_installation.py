"""What an action finds of this project where an installer has put it: the packages, or links to them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from mappa_env.sandbox import Limits, make_sandbox
from mappa_env.sandbox.local import LocalSandbox
from mappa_env.sandbox.local.inside import installation

PROJECT = Path(__file__).parents[4] / "pyproject.toml"
_PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "mappa"
version = "0.0.7"
scripts = {mappa-env = "mappa_env:main"}
[tool.setuptools]
packages = ["mappa_env"]
"""
_SHOW = """
import importlib.metadata, importlib.util, os, sys
known = [found.metadata["Name"].lower() for found in importlib.metadata.distributions()]
print("metadata", known.count("neighbour"), *(name for name in known if name == "mappa"))
print("imports", *filter(importlib.util.find_spec, ("mappa_env", "neighbour")))
print("memory", *(each for each in (
    *sys.path, *sys.path_importer_cache, *sys.modules, *sys.orig_argv,
    *map(repr, sys.meta_path + sys.path_hooks),
    *(getattr(module, "__file__", None) or "" for module in sys.modules.values()),
) if "mappa" in each and each != os.getcwd()))
print("contents", end="")
names = []
for folder in (os.path.dirname(sys.executable), *(path for path in sys.path if path.endswith("-packages"))):
    for path, _, files in os.walk(folder):
        names += [name for name in (path, *files) if "mappa" in os.path.basename(name)]
        for name in files:
            if "mappa" in os.path.join(path, name):
                try:
                    print("", name, open(os.path.join(path, name), "rb").read(9), end="")
                except OSError:
                    pass
print()
print("names", *sorted(names))
"""


def installed(folder: Path, *, editable: bool) -> str:
    """The interpreter of a new environment with a small project of our name, and a neighbour of it."""
    if not all(map(find_spec, ("pip", "setuptools"))):  # without importing them: they patch each other
        pytest.skip("needs pip and setuptools")
    source = folder / "source"
    (source / "mappa_env").mkdir(parents=True)
    (source / "mappa_env" / "__init__.py").write_text("def main():\n    pass\n")
    (source / "pyproject.toml").write_text(_PYPROJECT)
    shutil.copytree(source, folder / "other")
    (folder / "other" / "mappa_env").rename(folder / "other" / "neighbour")
    text = _PYPROJECT.replace("mappa-env", "neighbour").replace("mappa_env", "neighbour")
    (folder / "other" / "pyproject.toml").write_text(text.replace("mappa", "neighbour"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    python = str(folder / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation"]
    for place in (source, folder / "other"):
        subprocess.run(
            [*install, "--ignore-installed", "--quiet", *(["--editable"] if editable else []), str(place)],
            env={**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")},
            check=True,
        )
    return python


def test_the_distribution_has_the_name_that_is_hidden() -> None:
    assert tomllib.loads(PROJECT.read_text())["project"]["name"] == installation.DISTRIBUTION


@pytest.mark.parametrize("editable", [False, True], ids=["plain", "editable"])
def test_an_action_does_not_find_the_project(tmp_path: Path, editable: bool) -> None:
    """Names show where nothing can hide them: without mounts, and in bubblewrap, which only covers files."""
    python = installed(tmp_path, editable=editable)
    show = [python, "-c", _SHOW]
    outside = subprocess.run(show, capture_output=True, text=True, check=True, cwd="/").stdout
    assert "metadata 1 mappa\nimports mappa_env neighbour\n" in outside
    assert all(each in outside for each in (" METADATA b'Metadata-", " mappa-env b'#!"))
    for level in ("full", "landlock", "bwrap"):
        if level == "bwrap" and not shutil.which("bwrap"):
            continue
        option = {"name": level} if level == "bwrap" else {"name": "local", "level": level}
        sandbox = make_sandbox({**option, "python": python})
        with sandbox.open_workspace() as workspace:
            result = sandbox.run(workspace, _SHOW, Limits())
        sandbox.close()
        assert result.status == "ok", result
        said = dict(line.partition(" ")[::2] for line in result.stdout.splitlines())
        assert (said["metadata"], said["contents"]) == ("1", ""), (level, result.stdout)
        if level != "bwrap":
            assert said["memory"] == "", (level, result.stdout)
        if level == "full":
            assert (said["imports"], said["names"]) == ("" if editable else "neighbour", ""), result.stdout
            assert isinstance(sandbox, LocalSandbox)
            assert sandbox.level.template.unnamed


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_doctor_says_that_names_show_where_a_layer_cannot_hide_them() -> None:
    """A mount in a library would vanish below a layer, so that the library has none."""
    library = Path(sysconfig.get_path("purelib"))
    if not any(installation.files(str(library))):
        pytest.skip("this project is not installed in the interpreter of the tests")
    within = next(path for path in library.iterdir() if path.suffix == ".dist-info")
    doctor = 'mount -t tmpfs none "$1" && exec "$2" -m mappa_env.cli doctor'
    found = subprocess.run(
        ["unshare", "--mount", "sh", "-c", doctor, "-", str(within), sys.executable],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "mount" in found.stderr:
        pytest.skip(found.stderr)
    assert "isolation=full" in found.stdout, found
    assert "actions see the names" in found.stdout, found
