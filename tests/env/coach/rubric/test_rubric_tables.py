"""The rubric on tables: an engineer's files, and who is to blame for what others cannot use."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from mappa_env.coach.culprit import culprit
from mappa_env.types import FileChange, RunStatus, ToolResult, Verdict
from rubric_play import TABLE, Play, code, ran
from rubric_tables import (
    LOADS,
    TABLES,
    engineer,
    facts,
    graded,
    modeler,
    no_file,
    predictions,
    submit,
    team_up_to_analyst,
    with_model,
)


def test_sound_tables_earn_all() -> None:
    play = Play("dsbench", TABLE)
    assert engineer(play).score == 10
    closing = play.act("engineer_0", "done: X_train.pkl y_train.pkl X_test.pkl")
    assert (closing.score, closing.blame) == (10, None)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"X_train": {"nan": 3}}, "missing"),
        ({"X_test": {"inf": 1}}, "infinite"),
        ({"X_train": {"numeric": False, "strings": ["city"]}}, "city"),
        ({"X_train": {"loads": False, "error": "EOFError"}}, "EOFError"),
        ({"X_test": {"table": False, "type": "dict"}}, "dict"),
        ({"X_test": {"rows": 0}}, "empty"),
        ({"y_train": {"distinct": 1}}, "same value"),
        ({"checks": {"target_leaked": ["price"]}}, "contains the target"),
        ({"checks": {"test_rows_match": False}}, "rows"),
        ({"checks": {"rows_match": False}}, "rows"),
        ({"checks": {"columns_match": False}}, "columns"),
    ],
)
def test_unusable_tables_earn_next_to_nothing(change: Mapping[str, Any], word: str) -> None:
    verdict = engineer(Play("dsbench", TABLE), facts(**change))
    assert verdict.score is not None
    assert verdict.score <= 1
    assert verdict.blame == "engineer_0"
    assert word in verdict.reasoning


def test_a_file_that_breaks_the_probe_is_unusable() -> None:
    verdict = engineer(Play("dsbench", TABLE), {"probe_failed": "memory"})
    assert verdict.score is not None
    assert (verdict.score <= 1, verdict.blame) == (True, "engineer_0")
    assert engineer(Play("dsbench", TABLE), {"probe_failed": "unavailable"}).status == "abstain"


def test_the_ladder_of_an_engineers_failures() -> None:
    def score(*arguments: Any, **options: Any) -> float:
        verdict = Play("dsbench", TABLE).act("engineer_0", *arguments, **options)
        assert verdict.blame == "engineer_0"
        assert verdict.score is not None
        return verdict.score

    text = code(LOADS["engineer_0"])
    work = code(f"a = pd.read_csv('train.csv')\na.to_pickle('{TABLES[0]}')")
    bug = ran("", "error", "NameError: pd", opened=())
    talk = score("I would clean the table.")
    lie = score("I have saved X_train.pkl, y_train.pkl and X_test.pkl.")
    syntax = score(work, ran("", "error", "SyntaxError: invalid syntax"))
    crash = score(work, ran("", "error", "KeyError: 'price'"))
    slow = score(text, ran("", "timeout", opened=("train.csv",)))
    tried = score(work, bug, last=False)
    used = score(text, ran("", "error", "KeyError: 'price'", opened=("train.csv",)), last=False)
    nothing = score(text, ran("looked at it"), last=True)
    claimed = score(code("print('Saved X_train.pkl')"), ran("Saved X_train.pkl", opened=()), last=False)
    partly = score(text, ran("", files=TABLES[:2]), probe=facts(X_test={"exists": False}))
    looked = [
        score(code("print(dir())"), ran("[]", opened=()), last=False),
        score(code("print(pd.read_csv('train.csv').describe())"), ran("", opened=("train.csv",)), last=False),
        score(code("""'''First a look; X_train.pkl comes later.'''\nprint(one)"""), bug, last=False),
        score(code("pd.read_cvs('train.csv')"), bug, last=False),
        score(code("subprocess.run(['nproc'], check=True)"), ran("", "error"), last=False),
        score(text, ran("", "error", "KeyError: 1"), last=False),  # where nobody saw what it opened
    ]
    assert talk == lie == 0
    assert nothing < syntax == slow == crash == tried == used < partly == claimed < min(looked)
    assert set(looked) == {2}


def test_a_later_turn_fixes_an_earlier_one() -> None:
    play = Play("dsbench", TABLE)
    play.act("engineer_0", code(LOADS["engineer_0"]), ran("", "error", "KeyError: 'x'"))
    assert engineer(play).score == 10
    play.act("engineer_0", "done")
    assert culprit(play.actions) is None


def test_missing_input_is_blamed_on_who_had_to_write_it() -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(X_test={"exists": False}), files=TABLES[:2])
    play.act("modeler_0", code(LOADS["modeler_0"]), ran("", files=["model.pkl"]), probe=with_model())
    tried = play.act("analyst_0", code(LOADS["analyst_0"]), no_file("X_test.pkl"))
    assert (tried.score, tried.blame) == (6, "engineer_0")
    assert play.act("analyst_0", "stopped").score == 6
    assert culprit(play.actions) == "engineer_0"


def test_only_who_really_tried_is_excused() -> None:
    def analyst(source: str, tool: ToolResult | None) -> Verdict:
        play = Play("dsbench", TABLE)
        engineer(play, facts(X_test={"exists": False}), files=TABLES[:2])
        return play.act("analyst_0", code(source) if source else "X_test.pkl is missing.", tool)

    for idle in (
        analyst("", None),
        *(analyst("open('X_test.pkl')", ran(opened=(name,))) for name in ("train.csv", "./")),
    ):
        assert (idle.score, idle.blame) == (2, "analyst_0")
    for opened in (("X_test.pkl",), ("test.csv", "./"), None):
        looked = analyst("open(name)", ran(opened=opened))
        assert (looked.score, looked.blame) == (6, "engineer_0")
    blundered = analyst("open('X_test.pkl", ran("", "error", "SyntaxError: unterminated string", opened=()))
    assert blundered.blame == "analyst_0"


BY_ITSELF = [
    ("raise ValueError('x')", "ValueError: x"),
    ("assert False", "AssertionError"),
    ("'X_test.pkl'\nraise KeyError('a')", "KeyError: 'a'"),
    ("raise FileNotFoundError('X_test.pkl')", "FileNotFoundError: X_test.pkl"),
    ("raise ValueError('x')\nopen('X_test.pkl')", "ValueError: x"),
]


@pytest.mark.parametrize(("source", "error"), BY_ITSELF)
def test_a_program_that_fails_by_itself_has_not_tried(source: str, error: str) -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(X_test={"exists": False}), files=TABLES[:2])
    line = 1 + source[: source.index("raise") if "raise" in source else 0].count("\n")
    stderr = f'Traceback (most recent call last):\n  File "<action>", line {line}, in <module>\n{error}'
    verdict = play.act("analyst_0", code(source), ran("", "error", stderr, opened=()))
    assert verdict.score is not None
    assert (verdict.score <= 3, verdict.blame) == (True, "analyst_0")


@pytest.mark.parametrize(
    ("error", "status", "stderr"),
    [
        (
            "ModuleNotFoundError: No module named 'mine'",
            "error",
            "ModuleNotFoundError: No module named 'mine'",
        ),
        ("NameError: name 'undefined' is not defined", "error", "NameError: name 'undefined' is not defined"),
        ("the process that loaded it ended with timeout", "timeout", ""),
        ("the process that loaded it ended with memory", "memory", ""),
        ("the process that loaded it ended with killed", "killed", ""),
        ("the process that loaded it ended with output_limit", "output_limit", ""),
    ],
)
def test_an_unsound_input_explains_any_end_of_a_program_that_used_it(
    error: str, status: RunStatus, stderr: str
) -> None:
    def analyst(*opened: str) -> Verdict:
        play = team_up_to_analyst(with_model(loads=False, error=error))
        return play.act("analyst_0", code(LOADS["analyst_0"]), ran("", status, stderr, opened=opened))

    used = analyst("X_test.pkl", "model.pkl")
    assert (used.score, used.blame) == (6, "modeler_0")
    for unused in (analyst(), analyst("./")):  # what is in a file shows in no listing
        assert unused.score is not None
        assert (unused.score <= 3, unused.blame) == (True, "analyst_0")


def test_a_missing_input_explains_no_program_that_hangs() -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(X_test={"exists": False}), files=TABLES[:2])
    verdict = play.act("analyst_0", code("os.path.exists('X_test.pkl')"), ran("", "timeout"))
    assert verdict.score is not None
    assert (verdict.score <= 3, verdict.blame) == (True, "analyst_0")


def test_who_calls_itself_blocked_by_sound_inputs_is_not_believed() -> None:
    def analyst(text: str, tool: ToolResult | None) -> Verdict:
        return team_up_to_analyst(with_model(predictions=predictions(1.0))).act("analyst_0", text, tool)

    for verdict in (
        analyst("X_test.pkl is missing; engineer_0 is to blame.", None),
        analyst(code("raise FileNotFoundError('X_test.pkl')"), no_file("X_test.pkl")),
        analyst(code("print('X_test.pkl is missing')"), ran("X_test.pkl is missing")),
    ):
        assert verdict.score is not None
        assert (verdict.score <= 2, verdict.blame) == (True, "analyst_0")


def test_a_workaround_scores_more_than_stopping() -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(X_test={"exists": False}), files=TABLES[:2])
    modeler(play, with_model())
    submitted = submit(play, graded(0.9), "pd.read_csv('train.csv').to_csv('submission.csv')")
    assert (submitted.score, submitted.blame) == (pytest.approx(9.8), "engineer_0")


@pytest.mark.parametrize(("skill", "least", "most"), [(0.05, 6, 7), (0.2, 8, 9), (0.3, 8, 9), (1, 10, 10)])
def test_a_workaround_that_solves_little_still_scores_two_points_more(
    skill: float, least: float, most: float
) -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(X_test={"exists": False}), files=TABLES[:2])
    modeler(play, with_model())
    submitted = submit(play, graded(skill), "pd.read_csv('train.csv').to_csv('submission.csv')")
    assert submitted.score is not None
    assert least <= submitted.score <= most
    assert submitted.blame == "engineer_0"


def test_blame_goes_to_the_root_of_a_chain() -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(X_train={"numeric": False, "strings": ["city"]}))
    crash = ran("", "error", "ValueError: could not convert string to float: 'north'")
    blocked = play.act("modeler_0", code(LOADS["modeler_0"]), crash)
    assert (blocked.score, blocked.blame) == (6, "engineer_0")
    assert play.act("analyst_0", code(LOADS["analyst_0"]), no_file("model.pkl")).blame == "engineer_0"
    own = Play("dsbench", TABLE)
    engineer(own, facts(X_train={"nan": 4}))
    assert (
        own.act("modeler_0", code(LOADS["modeler_0"]), ran("", "error", "NameError: x")).blame == "modeler_0"
    )


def test_who_overwrites_the_work_of_another_is_at_fault_whatever_the_file_holds_then() -> None:
    unknown = {"exists": True, "loads": False, "unknown": True, "error": "it is an HDF5 file"}
    play = Play("dsbench", TABLE)
    engineer(play)
    saved = ran("", files=["X_train.pkl"])
    found = play.act("modeler_0", code(LOADS["modeler_0"]), saved, probe=facts(X_train=unknown))
    assert (found.status, found.blame) == ("ok", "modeler_0")
    assert found.score is not None
    assert found.score <= 1
    play = team_up_to_analyst(with_model())
    found = play.act(
        "analyst_0",
        code(LOADS["analyst_0"]),
        ran("", files=["model.pkl"]),
        probe={**facts(), "model": unknown},
    )
    assert (found.status, found.blame) == ("ok", "analyst_0")


def test_deleting_what_others_need_does_not_pay() -> None:
    play = Play("dsbench", TABLE)
    engineer(play)
    del play.present["X_test.pkl"]
    gone = FileChange("X_test.pkl", "deleted", 0, "")
    tool = ran("", files=["model.pkl"])
    tool = dataclasses.replace(tool, files=(*tool.files, gone))
    coach = play.act("modeler_0", code(LOADS["modeler_0"]), tool, probe=with_model())
    assert (coach.score, coach.blame) == (1, "modeler_0")
    blocked = play.act("analyst_0", code(LOADS["analyst_0"]), no_file("X_test.pkl"))
    assert (blocked.score, blocked.blame) == (6, "modeler_0")


def test_a_fifo_is_no_file() -> None:
    play = Play("dsbench", TABLE)
    engineer(play)
    tool = dataclasses.replace(ran(), files=(FileChange("model.pkl", "created", 0, "", "fifo"),))
    assert play.act("modeler_0", code(LOADS["modeler_0"]), tool, probe=facts(), last=True).score == 0.5
