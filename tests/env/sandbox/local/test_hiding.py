"""What actions may not read of the runtime: shipped tables, and this project's packages wherever they lie."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mappa_env.data.tabular import seeding
from mappa_env.sandbox import Limits, make_sandbox
from mappa_env.sandbox.local.inside.hiding import around, hidden
from mappa_env.sandbox.local.inside.installation import PROJECT
from mappa_env.sandbox.local.own import own_paths


def written(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "lib" / "python3.12" / "site-packages"
    written(
        folder,
        "mappa_env/data/salt.py",
        "envs_registry/__init__.py",
        "tables/data/__init__.py",
        "tables/data/wine.csv",
        "tables/code.py",
        "mixed/code.py",
        "mixed/iris.csv.gz",
        "mixed/notes.txt",
        "tested/code.py",
        "tested/tests/data/one/a.arff.gz",
        "tested/tests/data/two/b.parquet",
        "tested/tests/test_code.py",
        "plots/share/fonts/a.ttf",
        "plots/share/samples/s.csv",
        "nested/d.csv",
        "nested/inner/code.py",
    )
    return folder


def test_tables_and_packages_are_found_and_code_is_not(library: Path, tmp_path: Path) -> None:
    found = {os.path.relpath(path, library) for path in hidden([str(tmp_path / "lib")])}
    assert found == {
        "mappa_env",
        "envs_registry",
        "tables/data",
        "mixed/iris.csv.gz",
        "tested/tests/data",
        "plots/share/samples",
        "nested/d.csv",
    }


def test_own_paths_are_found_by_the_name_that_they_have_inside(library: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "lib")
    own = [str(library / "plots"), str(tmp_path / "elsewhere")]
    found = hidden([str(link)], own)
    assert str(link / "python3.12" / "site-packages" / "plots") in found
    assert all(path.startswith(f"{link}/") for path in found)


def test_what_is_allowed_instead_is_everything_but_the_hidden(library: Path, tmp_path: Path) -> None:
    unseen = hidden([str(tmp_path)], [str(library / "plots")])
    allowed = dict(around([str(tmp_path)], unseen))

    def readable(path: Path) -> bool:
        return any(allowed.get(str(each), False) for each in (path, *path.parents))

    files = [path for path in library.rglob("*") if path.is_file()]
    closed = {path for path in files if not readable(path)}
    assert closed == {path for path in files if any(str(path).startswith(each) for each in unseen)}
    assert 0 < len(closed) < len(files)


def test_own_paths_name_every_package() -> None:
    paths = own_paths()
    assert {Path(path).name for path in paths} >= set(PROJECT)
    assert all(os.path.isabs(path) for path in paths)


_PLAIN = """
try:
    from mappa_env.data.tabular.seeding import SALT
    print("salt", SALT)
except (ImportError, OSError) as error:
    print("no salt")
import six_tables
try:
    print("read", six_tables.table())
except OSError:
    print("closed")
"""


@pytest.mark.parametrize("level", ["full", "landlock"])
def test_a_plain_install_shows_the_box_neither_the_project_nor_tables(tmp_path: Path, level: str) -> None:
    """A virtual environment with the project's packages copied into its site-packages, as pip does."""
    venv = tmp_path / "plain"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    library = next((venv / "lib").glob("python3*")) / "site-packages"
    written(library, "six_tables/data/t.csv")
    (library / "six_tables" / "__init__.py").write_text(
        "import os\n\n\ndef table():\n"
        "    return open(os.path.join(os.path.dirname(__file__), 'data', 't.csv')).read()\n"
    )
    for name in ("__init__.py", "data/__init__.py", "data/tabular/__init__.py"):
        written(library, f"mappa_env/{name}")
        (library / "mappa_env" / name).write_text("")
    shutil.copy(seeding.__file__, library / "mappa_env" / "data" / "tabular")
    python = str(venv / "bin" / "python")
    outside = subprocess.run([python, "-I", "-c", _PLAIN], capture_output=True, text=True).stdout
    assert outside == f"salt {seeding.SALT}\nread x\n"
    sandbox = make_sandbox({"name": "local", "python": python, "level": level})
    with sandbox.open_workspace() as workspace:
        result = sandbox.run(workspace, _PLAIN, Limits())
    assert (result.status, result.stdout) == ("ok", "no salt\nclosed\n"), result
