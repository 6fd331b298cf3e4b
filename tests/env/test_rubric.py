"""The rubric coach on evidence built by hand, and on real episodes of the scripted mathematics team."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.cards import Card, read_card
from mappa_env.coach import OffCoach, make_coach
from mappa_env.coach.chain import Said, is_right, number_in, same
from mappa_env.coach.culprit import culprit
from mappa_env.coach.rubric import RubricCoach
from mappa_env.data import load_tasks
from mappa_env.episode import Episode
from mappa_env.errors import CardError, OptionError
from mappa_env.parsing import parse
from mappa_env.scripted import load_script, make_team
from mappa_env.types import ActionRecord, Evidence, FileChange, Outcome, RunStatus, Task, ToolResult, Verdict

REGISTRY = Path(__file__).resolve().parents[2] / "envs_registry"
CARDS = {name: read_card(REGISTRY / name) for name in ("mathchat", "dsbench")}
SUM = Task("t", "What is 3 times 4, plus 2?", "exact_match", truth={"answer": "14"})
TABLE = load_tasks("tabular", "train").get("train-iris-000")
INPUTS = ("train.csv", "test.csv")


def ran(
    stdout: str = "", status: RunStatus = "ok", stderr: str = "", files: Iterable[str] = ()
) -> ToolResult:
    changes = tuple(FileChange(name, "created", 10, "0") for name in files)
    return ToolResult(status, 0 if status == "ok" else 1, stdout, stderr, files=changes)


class Play:
    """Feeds one action after the other to the coach, as an episode would, from facts written down here."""

    def __init__(self, folder: str, task: Task, *, truth: bool = True) -> None:
        self.card = CARDS[folder]
        self.coach = make_coach("rubric", self.card)
        self.task, self.truth = task, truth
        self.actions: list[ActionRecord] = []
        self.present = {name: FileChange(name, "created", 1, "") for name in INPUTS if folder == "dsbench"}

    def act(
        self,
        agent: str,
        text: str,
        tool: ToolResult | None = None,
        *,
        probe: Mapping[str, Any] | None = None,
        standing: Outcome | None = None,
        claims: tuple[str, ...] = (),
        last: bool | None = None,
    ) -> Verdict:
        spec, step = self.card.team[agent], len(self.actions)
        parsed = parse(text, tools=bool(spec.tools))
        turn = sum(a.agent == agent for a in self.actions)
        missing = tuple(n for n in spec.reads if n not in self.present) if tool is not None else ()
        if tool is not None:
            tool = dataclasses.replace(
                tool, files=tuple(dataclasses.replace(f, agent=agent, step=step) for f in tool.files)
            )
            self.present.update({f.path: f for f in tool.files if f.op != "deleted"})
        ended = tool is None if last is None else last
        verdict = self.coach.judge(
            Evidence(
                self.task, spec, turn, step, "", parsed.text, parsed.code, tool, ended, tuple(self.actions),
                dict(self.present), missing, claims, probe, None, standing,
                self.task.truth if self.truth and agent in self.card.truth else None,
            )
        )  # fmt: skip
        self.actions.append(
            ActionRecord(
                step, agent, turn, (), parsed.text, parsed.thinking, parsed.answer, parsed.code, tool,
                verdict, 0.0, False, (self.task.family, spec.role, turn), 0, ended, claims, missing, probe,
            )
        )  # fmt: skip
        return verdict


def code(*lines: str) -> str:
    return "```python\n" + "\n".join(lines) + "\n```"


# -- mathematics ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "score", "blame"),
    [
        ("plan: 3*4+2", 10, None),
        ("**plan:** `3*4 + 2`", 10, None),
        ("plan: 3+4*2", 2, "solver_0"),
        ("plan: 3*4+2\nplan: 3*4", 2, "solver_0"),  # the last plan is what the coder takes
        ("plan: think hard", 1, "solver_0"),
        (r"So the answer is \boxed{14}.", 10, None),
        (r"So the answer is \boxed{15}.", 2, "solver_0"),
        ("First multiply the two numbers, then add two to the product.", 1, None),
        ("<think>plan: 3*4+2</think>", 0, "solver_0"),
        ("", 0, "solver_0"),
    ],
)
def test_solver(text: str, score: float, blame: str | None) -> None:
    verdict = Play("mathchat", SUM).act("solver_0", text)
    assert (verdict.status, verdict.score, verdict.blame) == ("ok", score, blame)


@pytest.mark.parametrize(
    ("plan", "tool", "score", "blame"),
    [
        ("3*4+2", ran("14\n"), 10, None),
        ("3*4+2", ran("steps\nx = 14.0\n"), 10, None),
        ("3*4", ran("12\n"), 8, "solver_0"),
        ("3*4", ran("14\n"), 10, None),
        ("3*4", ran("13\n"), 2, "coder_0"),
        ("3*4+2", ran("12\n"), 2, "coder_0"),
        ("3*4+2", ran(""), 1, "coder_0"),
        ("3*4+2", ran("", "error", "Traceback\nNameError: name 'prnt' is not defined"), 1, "coder_0"),
        ("3*4+2", ran("", "error", "SyntaxError: invalid syntax"), 0.5, "coder_0"),
        ("3*4+2", ran("14\n", "timeout"), 0.5, "coder_0"),
        ("1+frob(2)", ran("", "error", "NameError: name 'frob' is not defined"), 5, "solver_0"),
    ],
)
def test_coder_code(plan: str, tool: ToolResult, score: float, blame: str | None) -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", f"plan: {plan}")
    verdict = play.act("coder_0", code(f"print({plan})"), tool)
    assert (verdict.score, verdict.blame) == (score, blame)


@pytest.mark.parametrize(
    ("output", "text", "score", "blame"),
    [
        ("14", "result: 14", 10, None),
        ("14", "It printed 14, so\nresult: `14`", 10, None),
        ("14", "result: 41", 1, "coder_0"),
        ("12", "result: 12", 10, "coder_0"),  # an honest report of what it computed wrongly before
        ("12", "result: 14", 10, None),
        ("14", "that is all", 0, "coder_0"),
        ("", "result: 14", 5, None),
        ("", "result: none", 1, "coder_0"),
    ],
)
def test_coder_report(output: str, text: str, score: float, blame: str | None) -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4+2")
    play.act("coder_0", code("print(0)"), ran(output))
    verdict = play.act("coder_0", text)
    assert (verdict.score, verdict.blame) == (score, blame)


def test_coder_without_code() -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4+2")
    verdict = play.act("coder_0", "result: 14")
    assert (verdict.score, verdict.blame) == (0, "coder_0")


@pytest.mark.parametrize(
    ("plan", "output", "result", "answer", "score", "blame"),
    [
        ("3*4+2", "14", "14", r"\boxed{14}", 10, None),
        ("3*4", "12", "12", r"\boxed{12}", 8, "solver_0"),
        ("3*4", "12", "12", r"\boxed{14}", 10, None),
        ("3*4+2", "12", "12", r"\boxed{12}", 8, "coder_0"),
        ("3*4+2", "14", "41", r"\boxed{41}", 5, "coder_0"),
        ("3*4+2", "14", "41", r"\boxed{14}", 10, None),
        ("3*4+2", "14", "14", r"\boxed{41}", 1, "verifier_0"),
        ("3*4+2", "14", "14", "the answer is 14", 0, "verifier_0"),
        ("3*4+2", "", "none", r"\boxed{none}", 4, "coder_0"),
    ],
)
def test_verifier(plan: str, output: str, result: str, answer: str, score: float, blame: str | None) -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", f"plan: {plan}")
    play.act("coder_0", code("print(0)"), ran(output))
    play.act("coder_0", f"result: {result}")
    verdict = play.act("verifier_0", answer)
    assert (verdict.score, verdict.blame) == (score, blame)


def test_without_truth_only_form_and_agreement_count() -> None:
    play = Play("mathchat", SUM, truth=False)
    assert play.act("solver_0", "plan: 3*4").score == 10
    assert play.act("coder_0", code("print(3*4)"), ran("12")).score == 10
    assert play.act("coder_0", "result: 12").score == 10
    assert play.act("verifier_0", r"\boxed{12}").score == 10
    other = Play("mathchat", SUM, truth=False)
    other.act("solver_0", "plan: 3*4")
    assert other.act("coder_0", code("print(3+4)"), ran("7")).blame == "coder_0"
    assert other.act("coder_0", "result: 9").score == 1
    assert other.act("verifier_0", r"\boxed{8}").blame == "verifier_0"


def test_reasons_never_tell_the_answer() -> None:
    task = dataclasses.replace(SUM, truth={"answer": "987654"})
    play = Play("mathchat", task)
    play.act("solver_0", "plan: 3*4")
    play.act("coder_0", code("print(3*4)"), ran("12"))
    play.act("coder_0", "result: 12")
    play.act("verifier_0", r"\boxed{12}")
    assert all(a.verdict.reasoning and "987654" not in a.verdict.reasoning for a in play.actions)


@pytest.mark.parametrize("agent", ["solver_0", "coder_0", "verifier_0"])
def test_a_broken_sandbox_is_never_a_number(agent: str) -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4+2")
    play.act("coder_0", code("print(3*4+2)"), ran("", "unavailable"))
    verdict = play.act(agent, r"result: 14 \boxed{14}")
    assert (verdict.status, verdict.score) == ("abstain", None)


@settings(max_examples=60, deadline=None)
@given(st.text(), st.text(max_size=200))
def test_any_text_gets_a_score_in_range(text: str, output: str) -> None:
    play = Play("mathchat", SUM)
    for verdict in (
        play.act("solver_0", text),
        play.act("coder_0", code("print()"), ran(output)),
        play.act("coder_0", text, last=True),
        play.act("verifier_0", text),
    ):
        assert verdict.score is not None
        assert 0 <= verdict.score <= 10


@pytest.mark.parametrize(
    ("text", "number"),
    [("14", 14), ("x = -3", -3), ("2.50", number_in("5/2")), ("1,292", 1292), ("3*4", 12), ("1/0", None),
     ("no", None), ("", None), ("9" * 500, None)],
)  # fmt: skip
def test_numbers_in_texts(text: str, number: Any) -> None:
    assert number_in(text) == number


def test_floats_agree_and_integers_must_be_equal() -> None:
    def said(text: str) -> Said:
        return Said("", text, number_in(text))

    assert same(said("8.000000000000002"), said("8"))
    assert not same(said("10000000"), said("10000001"))
    assert is_right(said("80"), "080 or 081 (both were accepted)")
    assert not is_right(said("words"), "080 or 081 (both were accepted)")


# -- tables -----------------------------------------------------------------------------------------------

X = {
    "exists": True,
    "loads": True,
    "table": True,
    "rows": 150,
    "cols": 5,
    "numeric": True,
    "nan": 0,
    "inf": 0,
}
SOUND: dict[str, Any] = {
    "X_train": X,
    "y_train": {**X, "cols": 1, "numeric": False, "distinct": 2},
    "X_test": {**X, "rows": 60},
    "model": {"exists": False, "loads": False},
    "checks": {"columns_match": True, "rows_match": True, "test_rows_match": True, "target_leaked": [],
               "train_rows": 150, "test_rows": 60, "id_kept": False},
}  # fmt: skip
TABLES = ("X_train.pkl", "y_train.pkl", "X_test.pkl")
LOADS = {
    "engineer_0": "pd.read_csv('train.csv')",
    "modeler_0": "pd.read_pickle('X_train.pkl'); pd.read_pickle('y_train.pkl')",
    "analyst_0": "pd.read_pickle('X_test.pkl'); pickle.load(open('model.pkl', 'rb'))",
}


def facts(**changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {**SOUND[name], **changes.get(name, {})} for name in SOUND}


def with_model(**changes: Any) -> dict[str, Any]:
    n = len(changes.get("predictions", range(60)))
    seen = {"exists": True, "loads": True, "has_predict": True, "predicts": True, "n_predictions": n,
            "finite": True, "constant": False}  # fmt: skip
    return facts(model={**seen, **changes}, X_test={"rows": n})


def engineer(play: Play, probe: Mapping[str, Any] | None = None, files: Iterable[str] = TABLES) -> Verdict:
    tool = ran("Saved (150, 5) (60, 5)", files=files)
    return play.act("engineer_0", code(LOADS["engineer_0"]), tool, probe=probe or facts())


def no_file(name: str) -> ToolResult:
    return ran("", "error", f"FileNotFoundError: [Errno 2] No such file or directory: '{name}'")


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
    talk = score("I would clean the table.")
    lie = score(text, ran("Saved (150, 5)"))
    named = score(text, ran("Saved X_train.pkl"), claims=("X_train.pkl",))
    syntax = score(text, ran("", "error", "SyntaxError: invalid syntax"))
    crash = score(text, ran("", "error", "KeyError: 'price'"))
    slow = score(text, ran("", "timeout"))
    nothing = score(text, ran("looked at it"), last=True)
    looked = score(text, ran("looked at it"), last=False)
    partly = score(text, ran("", files=TABLES[:2]), probe=facts(X_test={"exists": False}))
    assert talk == 0
    assert lie == named == 0.5
    assert lie < syntax == slow < crash <= nothing < looked <= partly <= 4


def test_a_later_turn_mends_an_earlier_one() -> None:
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
    assert (tried.score, tried.blame) == (4.5, "engineer_0")
    assert play.act("analyst_0", "stopped").score == 4.5
    assert culprit(play.actions) == "engineer_0"


def test_only_who_really_tried_is_excused() -> None:
    def analyst(source: str, tool: ToolResult | None) -> Verdict:
        play = Play("dsbench", TABLE)
        engineer(play, facts(X_test={"exists": False}), files=TABLES[:2])
        return play.act("analyst_0", code(source) if source else "X_test.pkl is missing.", tool)

    assert analyst("", None).blame == "analyst_0"
    forged = analyst("raise FileNotFoundError()", ran("", "error", "FileNotFoundError"))
    assert forged.blame == "analyst_0"
    other = analyst("open('other.pkl')", no_file("other.pkl"))
    assert other.blame == "analyst_0"


def test_blame_goes_to_the_root_of_a_chain() -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(X_train={"numeric": False, "strings": ["city"]}))
    crash = ran("", "error", "ValueError: could not convert string to float: 'north'")
    blocked = play.act("modeler_0", code(LOADS["modeler_0"]), crash)
    assert (blocked.score, blocked.blame) == (4.5, "engineer_0")
    assert play.act("analyst_0", code(LOADS["analyst_0"]), no_file("model.pkl")).blame == "engineer_0"
    own = Play("dsbench", TABLE)
    engineer(own, facts(X_train={"nan": 4}))
    assert (
        own.act("modeler_0", code(LOADS["modeler_0"]), ran("", "error", "NameError: x")).blame == "modeler_0"
    )


def predictions(share_right: float) -> list[str]:
    """The first share of the test labels right, the others wrong: (rows,) in the order of test.csv."""
    rows = TABLE.truth["answers_csv"].decode().strip().split("\n")[1:]
    labels = [row.split(",")[1] for row in rows]
    known = sorted(set(labels))
    cut = int(share_right * len(labels))
    return labels[:cut] + [next(k for k in known if k != label) for label in labels[cut:]]


def modeler(play: Play, probe: Mapping[str, Any]) -> Verdict:
    return play.act("modeler_0", code(LOADS["modeler_0"]), ran("", files=["model.pkl"]), probe=probe)


def model_score(**changes: Any) -> tuple[float, str | None]:
    play = Play("dsbench", TABLE)
    engineer(play)
    verdict = modeler(play, with_model(**changes))
    assert verdict.score is not None
    return verdict.score, verdict.blame


def test_the_ladder_of_models() -> None:
    assert TABLE.family == "classification"
    perfect = model_score(predictions=predictions(1.0))
    good = model_score(predictions=predictions(0.9))
    useless = model_score(predictions=predictions(0.2))
    constant = model_score(predictions=predictions(0.5), constant=True)
    no_model = model_score(has_predict=False, type="Series")
    broken = model_score(loads=False, error="EOFError")
    assert perfect == (10.0, None)
    assert 5.1 < good[0] < 10
    assert useless == (3.0, "modeler_0")
    assert constant == (2.0, "modeler_0")
    assert no_model == broken == (1.0, "modeler_0")


def test_equal_skill_earns_equally_whatever_the_metric() -> None:
    task = load_tasks("tabular", "train", {"sources": ["diabetes"], "size": 1}).get("train-diabetes-000")
    assert task.family == "regression"
    values = [float(row.split(",")[1]) for row in task.truth["answers_csv"].decode().split()[1:]]
    play = Play("dsbench", task)
    engineer(play)
    assert modeler(play, with_model(predictions=values)).score == 10
    for_skill = {skill: submit(Play("dsbench", task), graded(skill)).score for skill in (0.0, 0.4, 0.8)}
    assert for_skill == {s: submit(Play("dsbench", TABLE), graded(s)).score for s in for_skill}
    assert sorted(for_skill.values()) == list(for_skill.values())


def test_a_sure_forest_is_graded_as_it_would_be_submitted() -> None:
    tasks = load_tasks("tabular", "train", {"sources": ["churn"]})
    task = next(t for t in map(tasks.get, tasks.ids) if t.metric == "log_loss")
    values = [float(row.split(",")[1]) for row in task.truth["answers_csv"].decode().split()[1:]]
    sure = [1 - value if i == 0 else value for i, value in enumerate(values)]
    play = Play("dsbench", task)
    engineer(play)
    verdict = modeler(play, with_model(predictions=sure, probabilities=sure))
    assert (verdict.score, verdict.blame) == (10, None)


def test_a_model_of_a_class_nobody_else_has_is_unusable() -> None:
    assert model_score(loads=False, error="foreign: __main__.Mine")[0] == 1
    unseen = model_score(loads=False, error="foreign: catboost.core.CatBoostClassifier")
    assert unseen == (4.75, None)


def test_a_model_spoiled_by_its_inputs_is_excused() -> None:
    play = Play("dsbench", TABLE)
    leak = {"checks": {"target_leaked": ["price"], "columns_match": False}}
    engineer(play, facts(**leak))
    verdict = modeler(play, {**with_model(predicts=False, error="ValueError"), "checks": leak["checks"]})
    assert (verdict.score, verdict.blame) == (4.75, "engineer_0")


def submit(play: Play, standing: Outcome, source: str = LOADS["analyst_0"]) -> Verdict:
    return play.act("analyst_0", code(source), ran("", files=["submission.csv"]), standing=standing)


def graded(skill: float, status: str = "ok", constant: float = 0.0) -> Outcome:
    return Outcome(min(skill, 1.0), status == "ok", status, status, {"skill": skill, "constant": constant})


def team_up_to_analyst(model: Mapping[str, Any]) -> Play:
    play = Play("dsbench", TABLE)
    engineer(play)
    modeler(play, model)
    return play


@pytest.mark.parametrize(
    ("standing", "score"),
    [(graded(1.2), 10), (graded(0.5), 7.55), (graded(0.0), 3), (graded(0.0, constant=1.0), 2),
     (graded(0.0, "rows"), 1)],
)  # fmt: skip
def test_the_ladder_of_submissions(standing: Outcome, score: float) -> None:
    verdict = submit(team_up_to_analyst(with_model(predictions=predictions(1.0))), standing)
    assert verdict.score == pytest.approx(score)
    assert verdict.blame == (None if score > 3 else "analyst_0")


def test_the_standing_outlives_the_code_turn() -> None:
    play = team_up_to_analyst(with_model(predictions=predictions(1.0)))
    first = submit(play, graded(1.0))
    assert play.act("analyst_0", "done", standing=graded(1.0)).score == first.score == 10


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
    assert (blocked.score, blocked.blame) == (4.5, "modeler_0")


def test_a_fifo_is_no_file() -> None:
    play = Play("dsbench", TABLE)
    engineer(play)
    tool = dataclasses.replace(ran(), files=(FileChange("model.pkl", "created", 0, "", "fifo"),))
    assert play.act("modeler_0", code(LOADS["modeler_0"]), tool, probe=facts(), last=True).score == 2


def test_a_constant_model_excuses_who_used_it() -> None:
    play = team_up_to_analyst(with_model(predictions=predictions(0.5), constant=True))
    used = submit(play, graded(0.0, constant=1.0))
    assert (used.score, used.blame) == (4.75, "modeler_0")
    other = team_up_to_analyst(with_model(predictions=predictions(0.5), constant=True))
    unused = submit(other, graded(0.0, constant=1.0), "print('all the same')")
    assert (unused.score, unused.blame) == (2, "analyst_0")


# -- the coach as a whole ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "fault"),
    [(role, f) for role, faults in load_script("mathchat")[0].faults.items() for f in faults],
)
def test_culprits_of_real_episodes(role: str, fault: str) -> None:
    episode = Episode(CARDS["mathchat"], sandbox="calculator", prompts="compact")
    team = make_team("mathchat", "single", style="compact", agent=f"{role}_0", fault=fault)
    for seed in range(4):
        episode.reset(seed=seed)
        team.reset(episode.task, seed)
        while episode.agent is not None:
            episode.act(team.act(episode.agent, episode.turn, episode.actions))
        assert not episode.trajectory.outcome.success
        assert culprit(episode.actions) == f"{role}_0"
    episode.close()


def test_experts_earn_all_and_nobody_is_blamed() -> None:
    episode = Episode(CARDS["mathchat"], sandbox="calculator", prompts="compact")
    team = make_team("mathchat", "expert", style="compact")
    for seed in range(10):
        episode.reset(seed=seed)
        team.reset(episode.task, seed)
        while episode.agent is not None:
            episode.act(team.act(episode.agent, episode.turn, episode.actions))
        assert [a.verdict.score for a in episode.actions] == [10.0] * 4
        assert culprit(episode.actions) is None
    episode.close()


def test_other_names_are_refused() -> None:
    with pytest.raises(OptionError, match="Did you mean 'rubric'"):
        make_coach("rubrik", CARDS["mathchat"])
    with pytest.raises(OptionError, match="takes no options"):
        make_coach({"name": "off", "level": 3}, CARDS["mathchat"])
    with pytest.raises(OptionError, match=r"takes \['corrector', 'labels'\], found \['level'\]"):
        make_coach({"name": "rubric", "level": 3}, CARDS["mathchat"])
    with pytest.raises(OptionError, match="corrector='short' is not offered"):
        make_coach({"name": "rubric", "corrector": "short"}, CARDS["mathchat"])
    with pytest.raises(OptionError, match="has no rubric"):
        make_coach("rubric", dataclasses.replace(CARDS["mathchat"], rubric=None))
    assert isinstance(make_coach("off", CARDS["mathchat"]), OffCoach)


def test_without_labels_the_truth_has_no_part() -> None:
    """A wrong plan is a plan; with the truth it is a wrong one."""
    blind = Episode(CARDS["mathchat"], coach={"name": "rubric", "labels": False}, sandbox="calculator")
    seeing = Episode(CARDS["mathchat"], coach="rubric", sandbox="calculator")
    for episode, score in ((blind, 10.0), (seeing, 2.0)):
        episode.reset(seed=0)
        assert episode.act("plan: 1 + 1").verdict.score == score
        episode.close()
    with pytest.raises(OptionError, match="labels='no'"):
        make_coach({"name": "rubric", "labels": "no"}, CARDS["mathchat"])


def card_with(tmp_path: Path, text: str) -> Card:
    path = tmp_path / "rubric.yaml"
    path.write_text(text, encoding="utf-8")
    return dataclasses.replace(CARDS["mathchat"], rubric=path)


GOOD = (REGISTRY / "mathchat" / "rubric.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version: 1", "version: 2", "version 2 is not known"),
        ("version: 1", "version: 1\nextra: 3", "extra"),
        ("version: 1", "version: [", "not valid YAML"),
        ("check: math_plan", "check: math_plann", "Did you mean 'math_plan'"),
        ("wrong: 0.2, unreadable", "wrongg: 0.2, unreadable", "Did you mean 'wrong'"),
        ("wrong: 0.2, unreadable", "wrong: 2, unreadable", "within 0-1, found 2"),
        ("weight: 1", "weight: -1", "greater than or equal to 0"),
        ("  solver:", "  solvr:", "no rubric for the role 'solver'"),
        ("  coder:", "    caps: [{criterion: plann, below: 1, at_most: 2}]\n  coder:", "Did you mean 'plan'"),
        ("criteria:", "criterias:", "criteria"),
    ],
)
def test_malformed_rubrics_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(CardError, match=message):
        RubricCoach(card_with(tmp_path, GOOD.replace(old, new, 1)))


def test_caps_lower_a_score_and_judging_repeats(tmp_path: Path) -> None:
    capped = GOOD.replace("  coder:", "    caps: [{criterion: plan, below: 0.5, at_most: 0.7}]\n  coder:")
    play = Play("mathchat", SUM)
    play.coach = RubricCoach(card_with(tmp_path, capped))
    assert play.act("solver_0", "plan: 3*4").score == 0.7
    assert play.act("solver_0", "plan: 3*4").score == 0.7
    assert play.act("solver_0", "plan: 3*4+2").score == 10
