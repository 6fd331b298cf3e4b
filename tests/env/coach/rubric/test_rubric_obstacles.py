"""The rubric on what keeps agents from writing their files, and on files that are only touched."""

from __future__ import annotations

import dataclasses

import pytest

from mappa_env.coach.culprit import culprit
from mappa_env.coach.rubric.space import filler_of
from mappa_env.types import FileChange, RunStatus, Space, ToolResult, Use
from mappa_env.workspace.changes import apply
from rubric_play import TABLE, Play, code, ran
from rubric_tables import LOADS, SOUND, TABLES, engineer, facts, graded, modeler, submit, with_model

SAVES = LOADS["modeler_0"] + "; pickle.dump(model, open('model.pkl', 'wb'))"
TAKEN = "IsADirectoryError: [Errno 21] Is a directory: 'model.pkl'"
QUOTA, GIVEN = Use(120, 120), Use(20, 20)
FULL = "OSError: [Errno 28] No space left on device"


def with_change(tool: ToolResult, *changes: FileChange) -> ToolResult:
    return dataclasses.replace(tool, files=(*tool.files, *changes))


@pytest.mark.parametrize(("kind", "links"), [("dir", 1), ("fifo", 1), ("link", 1), ("file", 2)])
def test_what_lies_in_the_way_of_a_file_is_its_makers_defect(kind: str, links: int) -> None:
    play = Play("dsbench", TABLE)
    entry = FileChange("model.pkl", "created", 0, f"skipped: {kind}", kind, links=links)
    made = play.act(
        "engineer_0",
        code(LOADS["engineer_0"]),
        with_change(ran("", files=TABLES), entry),
        probe=facts(),
    )
    assert (made.score, made.blame) == (1, "engineer_0")
    blocked = play.act("modeler_0", code(SAVES), ran("", "error", TAKEN), probe=facts())
    assert (blocked.score, blocked.blame) == (6, "engineer_0")
    idle = play.act("modeler_0", "I wait.", last=True)
    assert idle.score == 6  # it has tried before
    assert culprit(play.actions) == "engineer_0"


def test_an_ordinary_file_is_in_nobodys_way() -> None:
    play = Play("dsbench", TABLE)
    assert engineer(play, files=(*TABLES, "model.pkl")).score == 10
    idle = play.act("modeler_0", "I wait.")
    assert (idle.score, idle.blame) == (0, "modeler_0")


def test_who_writes_through_another_name_that_somebody_gave_a_file_does_no_harm() -> None:
    digest = "a" * 64
    tied = [FileChange(path, "created", 10, digest, links=2) for path in ("X_test.pkl", "submission.csv")]
    play = Play("dsbench", TABLE)
    tool = with_change(ran("", files=TABLES[:2]), *tied)
    assert play.act("engineer_0", code(LOADS["engineer_0"]), tool, probe=facts()).score == 1
    modeler(play, with_model())
    both = [FileChange(change.path, "modified", 20, "b" * 64, links=2) for change in tied]
    tool = with_change(ran(), *both)
    found = play.act("analyst_0", code(LOADS["analyst_0"]), tool, provisional=graded(1.0))
    assert (found.score, found.blame) == (10, "engineer_0")


@pytest.mark.parametrize(("status", "stderr"), [("disk_limit", FULL), ("error", FULL)])
def test_a_full_workspace_is_the_doing_of_who_wrote_most(status: RunStatus, stderr: str) -> None:
    def failing(engineer: Use, modeler: Use) -> tuple[float | None, str | None]:
        play = Play("dsbench", TABLE)
        play.act("engineer_0", code(LOADS["engineer_0"]), ran("", files=TABLES), probe=facts())
        space = Space(QUOTA, {"": GIVEN, "engineer_0": engineer, "modeler_0": modeler}, {})
        tool = dataclasses.replace(ran("", status, stderr), space=space)
        verdict = play.act("modeler_0", code(SAVES), tool, probe=facts())
        return verdict.score, verdict.blame

    assert failing(Use(60, 2), Use(40, 2)) == (6, "engineer_0")
    assert failing(Use(10, 60), Use(40, 2)) == (6, "engineer_0")  # empty files and folders
    assert failing(Use(40, 40), Use(60, 2)) == (1, "modeler_0")
    assert failing(Use(40, 40), Use()) == (1, "modeler_0")  # it needed more, or removed it, or pretends


@pytest.mark.parametrize(
    ("taken", "blamed"), [(Use(60, 2), "engineer_0"), (Use(2, 60), "engineer_0"), (Use(40, 40), "modeler_0")]
)
def test_a_model_that_the_probe_had_no_space_to_try_is_not_its_writers_fault(taken: Use, blamed: str) -> None:
    """If the workspace was full: a model that only says so is its writer's fault."""
    play = Play("dsbench", TABLE)
    space = Space(QUOTA, {}, {"": GIVEN, "engineer_0": taken})
    tool = dataclasses.replace(ran("", files=TABLES), space=space)
    play.act("engineer_0", code(LOADS["engineer_0"]), tool, probe=facts())
    verdict = modeler(play, with_model(predicts=False, error=FULL))
    assert verdict.score is not None
    assert (verdict.score >= 6, verdict.blame) == (blamed == "engineer_0", blamed)


def test_of_several_agents_who_took_most_filled_the_workspace() -> None:
    """Each agent's part is less than half; together they left less than they took."""
    used = {"": GIVEN, "engineer_0": Use(35, 1), "modeler_0": Use(30, 1), "analyst_0": Use(10, 1)}
    found = filler_of(QUOTA, used, "analyst_0")
    assert found is not None
    assert found[0] == "engineer_0"
    assert filler_of(QUOTA, used, "engineer_0") is None
    assert filler_of(Use(200, 200), used, "analyst_0") is None
    assert filler_of(QUOTA, {"": Use(100, 100)}, "analyst_0") is None


def test_a_change_that_leaves_the_content_is_no_overwriting() -> None:
    present: dict[str, FileChange] = {}
    first = FileChange("a", "created", 3, "a" * 64, agent="engineer_0", step=0)
    apply(first, present)
    apply(dataclasses.replace(first, op="modified", agent="modeler_0", step=1), present)
    assert present == {"a": first}
    other = dataclasses.replace(first, op="modified", sha256="b" * 64, agent="modeler_0", step=2)
    apply(other, present)
    assert present == {"a": other}
    unread = dataclasses.replace(other, sha256="skipped: too large", step=3)
    apply(unread, present)
    apply(dataclasses.replace(unread, agent="analyst_0", step=4), present)  # nobody knows whether it changed
    assert present["a"].agent == "analyst_0"
    apply(dataclasses.replace(unread, op="deleted"), present)
    assert not present


@pytest.mark.parametrize(("digest", "score"), [("a" * 64, 10), ("b" * 64, 1)])
def test_a_table_saved_again_is_only_overwritten_if_it_changed(digest: str, score: float) -> None:
    play = Play("dsbench", TABLE)
    tables = [FileChange(name, "created", 10, "a" * 64) for name in TABLES]
    play.act("engineer_0", code(LOADS["engineer_0"]), with_change(ran(), *tables), probe=facts())
    again = FileChange("X_train.pkl", "modified", 10, digest)
    tool = with_change(ran("", files=["model.pkl"]), again)
    seen = {**SOUND, **with_model(predictions=["1"] * 60)}
    play.truth = False  # the quality of the model is not the question here
    assert play.act("modeler_0", code(LOADS["modeler_0"]), tool, probe=seen).score == score


def test_who_writes_the_same_file_again_has_written_it() -> None:
    play = Play("dsbench", TABLE)
    files = [FileChange(name, "created", 10, "a" * 64) for name in (*TABLES, "model.pkl", "submission.csv")]
    play.act("engineer_0", code(LOADS["engineer_0"]), with_change(ran(), *files), probe=facts())
    modeler(play, with_model())
    same = dataclasses.replace(files[-1], op="modified")
    found = play.act("analyst_0", code(LOADS["analyst_0"]), with_change(ran(), same), provisional=graded(1.0))
    assert (found.score, found.blame) == (10, None)
    assert submit(Play("dsbench", TABLE), graded(1.0)).score == 10
