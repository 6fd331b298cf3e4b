"""Choosing parts by name: built in, from a package, from a file, and from a trusted card."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mappa_env.cards import read_card
from mappa_env.coach import COACHES
from mappa_env.coach.rubric.checks import CHECKS
from mappa_env.coach.rubric.coach import RubricCoach
from mappa_env.data import LOADERS
from mappa_env.episode.episode import Episode
from mappa_env.errors import CardError, OptionError
from mappa_env.grading import GRADERS
from mappa_env.plugins import TRUST, Kind
from mappa_env.sandbox import SANDBOXES
from mappa_env.shaping import SHAPINGS
from mappa_rl.algos import ALGORITHMS

KINDS = [COACHES, SANDBOXES, SHAPINGS, GRADERS, LOADERS, CHECKS, ALGORITHMS]


def offer(folder: Path, monkeypatch: pytest.MonkeyPatch, *packages: str, group: str, name: str) -> None:
    """Fake installed packages that each offer their module's ``Thing`` as ``name`` in ``group``."""
    for package in packages:
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {package}:Thing\n")
        (folder / f"{package}.py").write_text("def Thing(*arguments, **options): ...\n")
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_chosen_in_the_same_ways(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = [name.partition(":")[0] for name in kind.builtin]
    assert all(callable(kind.find(head)) for head in heads)
    close = heads[0][:-1] + "~"
    says = f"{kind.option}={close!r} is not a"
    with pytest.raises(OptionError, match=re.escape(says)) as caught:
        kind.find(close)
    assert ", ".join(kind.builtin) in str(caught.value)
    assert f"Did you mean {heads[0]!r}?" in str(caught.value)
    file = tmp_path / "mine.py"
    file.write_text("class Mine: ...\n")
    assert kind.find(f"{file}:Mine").__name__ == "Mine"
    with pytest.raises(OptionError, match="Did you mean 'Mine'"):
        kind.find(f"{file}:Mime")
    offer(tmp_path, monkeypatch, "plugin_theirs", group=kind.group, name="special")
    assert kind.find("special").__module__ == "plugin_theirs"
    assert kind.names()[-1] == "special"


def test_the_groups_are_named_alike() -> None:
    assert [kind.group.partition(".")[2] for kind in KINDS] == [
        "coaches",
        "sandboxes",
        "shapings",
        "graders",
        "loaders",
        "checks",
        "algorithms",
    ]


def test_a_built_in_name_wins_and_a_name_offered_twice_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(tmp_path, monkeypatch, "one", group="mappa.shapings", name="process")
    assert SHAPINGS.find("process").__module__ == "mappa_env.shaping.process"
    assert SHAPINGS.names().count("process") == 1
    offer(tmp_path, monkeypatch, "two", "three", group="mappa.shapings", name="mine")
    with pytest.raises(OptionError, match="several installed packages"):
        SHAPINGS.find("mine")


def test_a_file_that_cannot_be_imported_is_named_with_its_error(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import no_such_module\n")
    with pytest.raises(OptionError, match=r"mine\.py cannot be imported: ModuleNotFoundError: No module"):
        SHAPINGS.find(f"{file}:Mine")


@pytest.mark.parametrize("code", ["def broken(:\n", "raise RuntimeError('no licence')\n", "1 / 0\n"])
def test_whatever_a_file_raises_when_imported_is_an_option_error(tmp_path: Path, code: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(code)
    with pytest.raises(OptionError, match=r"mine\.py cannot be imported: \w+Error: ") as caught:
        SHAPINGS.find(f"{file}:Mine")
    assert caught.value.__cause__ is not None


def test_whatever_a_package_raises_when_imported_is_an_option_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(tmp_path, monkeypatch, "plugin_broken", group="mappa.shapings", name="broken")
    (tmp_path / "plugin_broken.py").write_text("raise RuntimeError('no licence')\n")
    with pytest.raises(OptionError, match="plugin_broken:Thing cannot be imported: RuntimeError: no licence"):
        SHAPINGS.find("broken")


@pytest.mark.parametrize("error", [RuntimeError("no licence"), KeyError("table"), TypeError("not a number")])
def test_whatever_a_constructor_raises_is_an_option_error(tmp_path: Path, error: Exception) -> None:
    file = tmp_path / "bad.py"
    file.write_text(f"class Boom:\n    def __init__(self):\n        raise {error!r}\n")
    says = f"shaping='{file}:Boom': Boom() raised {type(error).__name__}: {error}"
    with pytest.raises(OptionError, match=re.escape(says)) as caught:
        SHAPINGS.make(f"{file}:Boom")
    assert isinstance(caught.value.__cause__, type(error))


@pytest.mark.parametrize(
    ("loader", "options", "says"),
    [
        ("arithmetic", {"topics": []}, "has no option 'topics'; its options are families, levels"),
        ("jsonl", {"foldr": "x"}, "Did you mean 'folder'?"),
    ],
)
def test_a_wrong_option_names_those_that_exist(loader: str, options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=re.escape(f"loader={loader!r}")) as caught:
        LOADERS.make(loader, "train", **options)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "arguments"), [(SHAPINGS, ()), (GRADERS, ()), (LOADERS, ("train",)), (SANDBOXES, ())]
)
def test_what_does_not_implement_its_kind_is_refused(
    kind: Kind, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("class Empty:\n    def __init__(self, *arguments): ...\n")
    with pytest.raises(OptionError, match=re.escape(f"is not a {kind.name}: ")) as caught:
        kind.make(f"{file}:Empty", *arguments)
    assert kind.advice in str(caught.value)


# -- code of cards ----------------------------------------------------------------------------------------

GRADER = """
from mappa_env.types import Outcome

class Generous:
    def __init__(self, score=1.0):
        self.score = score
    def grade(self, task, actions, workspace):
        return Outcome(self.score, True, "ok", "generous")
"""
LOADER = """
from mappa_env.data import ListTaskSet
from mappa_env.types import Task

def load(split, *, count=2):
    tasks = [Task(f"t{i}", "1 + 1?", "exact_match", truth={"answer": "2"}) for i in range(count)]
    return ListTaskSet("mine", split, tasks)
"""
CARD = """
extends: mathchat
id: Coded-v0
title: Coded
tasks: {loader: "code.py:load", options: {count: 3}}
grader: {name: "code.py:Generous", options: {score: 0.25}}
"""


@pytest.fixture
def card(tmp_path: Path) -> Path:
    folder = tmp_path / "coded"
    folder.mkdir()
    (folder / "card.yaml").write_text(CARD)
    (folder / "code.py").write_text(GRADER + LOADER)
    return folder


def test_code_of_a_card_is_refused_unless_its_folder_is_trusted(
    card: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for listed in ("", str(card.parent), "/elsewhere"):
        monkeypatch.setenv(TRUST, listed)
        with pytest.raises(CardError, match=re.escape(f"{TRUST}={card}")):
            read_card(card)
    monkeypatch.setenv(TRUST, f"/elsewhere:{card}")
    episode = Episode(read_card(card), coach="off", sandbox="calculator", shaping="outcome")
    episode.reset(seed=0)
    while not episode.over:
        episode.act("2")
    assert {reward for reward, _ in episode.rewards} == {2.5}
    assert len(episode.tasks.ids) == 3


@pytest.mark.parametrize("file", ["../outside.py", "/etc/outside.py", "missing.py"])
def test_code_of_a_card_lies_in_its_folder(card: Path, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (card.parent / "outside.py").write_text(GRADER)
    monkeypatch.setenv(TRUST, str(card))
    (card / "card.yaml").write_text(CARD.replace("code.py:Generous", f"{file}:Generous"))
    with pytest.raises(CardError, match=r"the file .* does not exist"):
        read_card(card)


def test_a_rubric_check_of_a_card(card: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (card / "checks.py").write_text(
        "from mappa_env.coach.rubric.case import Finding\n"
        "def short(case, *, limit=10):\n"
        "    return Finding(float(len(case.answer) <= limit), 'length')\n"
    )
    rule = "{criteria: [{name: short, check: 'checks.py:short', weight: 1, options: {limit: 3}}]}"
    (card / "rubric.yaml").write_text(
        f"version: 1\nroles: {{solver: {rule}, coder: {rule}, verifier: {rule}}}\n"
    )
    with (card / "card.yaml").open("a") as file:
        file.write("coach: {rubric: rubric.yaml}\n")
    monkeypatch.setenv(TRUST, str(card))
    made = read_card(card)
    monkeypatch.delenv(TRUST)
    with pytest.raises(CardError, match=TRUST):
        RubricCoach(made)
    monkeypatch.setenv(TRUST, str(card))
    episode = Episode(made, sandbox="calculator")
    episode.reset(seed=0)
    assert [episode.act(text).verdict.score for text in ("abc", "abcd")] == [10.0, 0.0]
    (card / "rubric.yaml").write_text((card / "rubric.yaml").read_text().replace("limit:", "limt:"))
    with pytest.raises(CardError, match="Did you mean 'limit'"):
        RubricCoach(made)
