"""A card, or a coach's recording, that changed since an evaluation was begun is found out."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import envs_registry
from fake_llm import serving
from mappa_env.cards import read_card
from mappa_env.cli import main
from mappa_env.errors import EvaluationError
from mappa_env.evaluation.contents import Contents
from mappa_env.evaluation.sources import sources_of

Edit = Callable[[Path], object]


def own_card(folder: Path, name: str) -> Path:
    """A card of its own prompts, on the tasks of AIME."""
    base = envs_registry.ROOT / "mathchat"
    shutil.copytree(base, folder)
    text = (base / "card.yaml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("id:")]
    (folder / "card.yaml").write_text("\n".join([f"id: {name}", *lines]) + "\n")
    return folder


def evaluate(card: Path, out: Path, coach: str = "off") -> int:
    words = ["--model", "trivial:last-number", "--limit", "3", "--out", str(out), "--sandbox", "null"]
    return main(["eval", str(card), *words, "--coach", coach])


def kill(folder: Path, left: int) -> None:
    path = folder / "episodes.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:left]))
    (folder / "evaluation.json").unlink()


def replaced(name: str, before: str, after: str) -> Edit:
    def edit(card: Path) -> None:
        text = (card / name).read_text()
        assert before in text
        (card / name).write_text(text.replace(before, after))

    return edit


def appended(name: str, text: str) -> Edit:
    return lambda card: (card / name).write_text((card / name).read_text() + text)


@pytest.mark.parametrize(
    ("edit", "coach", "named"),
    [
        (appended("prompts/full/solver.jinja", "\nBe brief."), "off", "prompts/full/solver.jinja"),
        (appended("card.yaml", "\nlimits:\n  wall_s: 1\n"), "off", "card.yaml"),
        (appended("rubric.yaml", "\n# stricter\n"), "rubric", "rubric.yaml of the coach"),
        (appended("coach.jinja", "\nBe strict."), "rubric", "coach.jinja of the coach"),
    ],
)
def test_an_edited_card_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Edit, coach: str, named: str
) -> None:
    card = own_card(tmp_path / "card", "".join(filter(str.isalpha, named)) + "-v0")
    out = tmp_path / "e"
    assert evaluate(card, out, coach) == 0
    kill(out, 1)
    kept = shutil.copytree(card, tmp_path / "kept")
    edit(card)
    assert evaluate(card, out, coach) == 2
    assert f"was begun with another {named}: restore that" in capsys.readouterr().err
    assert len((out / "episodes.jsonl").read_text().splitlines()) == 1
    shutil.rmtree(card)
    shutil.copytree(kept, card)
    assert evaluate(card, out, coach) == 0
    edit(card)
    assert evaluate(card, out, coach) == 2, "a finished one, too"


@pytest.mark.parametrize(
    "edit",
    [
        appended("README.md", "\nMore words.\n"),
        appended("card.yaml", "\n# a comment\n"),
        appended("prompts/brief/solver.jinja", "\nBe brief."),
        appended("rubric.yaml", "\n# no coach judges\n"),
    ],
)
def test_what_changes_no_result_may_be_edited(tmp_path: Path, edit: Edit) -> None:
    card, options = own_card(tmp_path / "card", "Own-v0"), {"coach": "off", "prompts": "full"}
    before = sources_of(read_card(card), options)
    edit(card)
    assert sources_of(read_card(card), options) == before


def test_one_of_a_version_that_kept_no_sources_goes_on(tmp_path: Path) -> None:
    card, out = own_card(tmp_path / "card", "OwnOld-v0"), tmp_path / "e"
    assert evaluate(card, out) == 0
    kill(out, 1)
    plan = json.loads((out / "planned.json").read_text())
    for env in plan.values():
        del env["sources"]
    (out / "planned.json").write_text(json.dumps(plan))
    assert evaluate(card, out) == 0
    assert json.loads((out / "planned.json").read_text()) == plan, "on which card it was begun is unknown"


def test_a_card_that_changes_while_it_is_played_is_refused(tmp_path: Path) -> None:
    card, options = own_card(tmp_path / "card", "Own-v0"), {"coach": "off", "prompts": "full"}
    contents = Contents([], {"mappa/Own-v0": sources_of(read_card(card), options)})
    contents.admit_card("mappa/Own-v0", read_card(card), options)
    appended("prompts/full/solver.jinja", "\nBe brief.")(card)
    with pytest.raises(EvaluationError, match=r"another prompts/full/solver\.jinja"):
        contents.admit_card("mappa/Own-v0", read_card(card), options)


def test_a_changed_recording_of_the_coach_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card, out, recording = own_card(tmp_path / "card", "OwnReplay-v0"), tmp_path / "e", tmp_path / "calls.db"
    with serving("openai") as fake:
        coach = json.dumps({"name": f"openai:m@{fake.url}", "cache": str(recording)})
        assert evaluate(card, tmp_path / "first", coach) == 0
    assert evaluate(card, out, f"replay:{recording}") == 0
    kill(out, 1)
    assert evaluate(card, out, f"replay:{recording}") == 0, "what is the same goes on"
    kill(out, 1)
    with closing(sqlite3.connect(recording)) as file:
        file.execute("UPDATE calls SET outcome = replace(outcome, '5', '7')")
        file.commit()
    assert evaluate(card, out, f"replay:{recording}") == 2
    assert "was begun with another recording of the coach" in capsys.readouterr().err


def headings(target: Path, *folders: Path) -> dict[str, int]:
    assert main(["leaderboard", *map(str, folders), "--json", str(target)]) == 0
    return {heading: len(rows) for heading, rows in json.loads(target.read_text()).items()}


def test_evaluations_on_another_card_of_the_same_id_are_no_rivals(tmp_path: Path) -> None:
    card, json_file = own_card(tmp_path / "card", "OwnRanked-v0"), tmp_path / "rows.json"
    first, judged, other = tmp_path / "first", tmp_path / "judged", tmp_path / "other"
    assert evaluate(card, first) == 0
    appended("rubric.yaml", "\n# stricter\n")(card)
    assert evaluate(card, judged, "rubric") == 0
    assert headings(json_file, first, judged) == {"mappa/OwnRanked-v0": 2}, "no coach changes an outcome"
    appended("prompts/full/solver.jinja", "\nBe brief.")(card)
    assert evaluate(card, other) == 0
    found = headings(json_file, first, judged, other)
    assert sorted(found.values()) == [1, 2]
    assert all(heading.startswith("mappa/OwnRanked-v0: card ") for heading in found)


def test_sources_that_were_changed_afterwards_are_found_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card, out = own_card(tmp_path / "card", "OwnSealed-v0"), tmp_path / "e"
    assert evaluate(card, out) == 0
    plan, results = (json.loads((out / name).read_text()) for name in ("planned.json", "evaluation.json"))
    (out / "evaluation.json").write_text(json.dumps(results | {"sources": []}))
    assert main(["leaderboard", str(out)]) == 2
    (out / "evaluation.json").write_text(json.dumps(results))
    assert main(["leaderboard", str(out)]) == 0
    capsys.readouterr()
    for env in plan.values():
        env["sources"]["card.yaml"] = "00000000"
    (out / "planned.json").write_text(json.dumps(plan))
    assert main(["leaderboard", str(out)]) == 2
    assert "is of other cards than those that planned.json" in capsys.readouterr().err
