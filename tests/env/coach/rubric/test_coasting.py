"""Agents of mathematics teams that take over what is wrong, in real episodes: the host's facts decide."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mappa_env.cards import read_card
from mappa_env.coach.blame.attribution import attribute
from mappa_env.coach.culprit import culprit
from mappa_env.episode.episode import Episode
from paths import REGISTRY
from rubric_play import code

CARDS = ("mathchat", "math_manager", "math_debate")


@pytest.fixture(scope="module")
def games() -> Iterator[dict[str, Episode]]:
    made = {
        name: Episode(read_card(REGISTRY / name), prompts="compact", sandbox="calculator") for name in CARDS
    }
    yield made
    for game in made.values():
        game.close()


def play(game: Episode, *texts: str) -> list[tuple[str, float | None, str | None]]:
    """Act with ``texts``, in which {gold}, {wrong} and {expr} stand for values of the task."""
    game.reset(seed=1, task_id=game.tasks.ids[1])
    gold = str(game.task.truth["answer"])
    values = {
        "gold": gold,
        "wrong": str(int(gold) + 1),
        "other": str(int(gold) + 2),
        "expr": game.task.meta["expr"],
    }
    for text in texts:
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        game.act(text)
    return [(action.agent, action.verdict.score, action.verdict.blame) for action in game.actions]


BROKEN = "1 + frob(2)"
CARRIED_OUT = {
    "plain": (f"print({BROKEN})",),
    "black": ("result = 1 + frob(", "    2,", ")", "print(result)"),
    "caught": ("try:", f"    print({BROKEN})", "except ZeroDivisionError:", "    print('?')"),
    "helper": ("def compute():", "    return 1 + frob(2)", "print(f'{compute()}')"),
    "put together": ("print(eval('1 + fr' + 'ob(2)'))",),
}
OWN = {
    "comment": (f"# {BROKEN}", "print(1 // 0)"),
    "string": (f"plan = '{BROKEN}'", "prnt(plan)"),
    "docstring": (f'"""{BROKEN}"""', "import nosuch_module"),
    "f-string": (f"print(f'plan: {BROKEN} {{missing}}')",),
    "caught": (
        "try:",
        "    raise KeyError('x')",
        "except KeyError as error:",
        f"    raise ValueError('{BROKEN}')",
    ),
    "unreached": ("int('x')", f"print({BROKEN})"),
    "syntax": (f"print({BROKEN}",),
}


@pytest.mark.parametrize("wording", CARRIED_OUT)
def test_who_carries_out_a_plan_that_cannot_run_is_blocked(games: dict[str, Episode], wording: str) -> None:
    game = games["mathchat"]
    said = code(*CARRIED_OUT[wording])
    rows = play(game, f"plan: {BROKEN}", said, "It cannot run.", r"\boxed{none}")
    solver, *others = rows
    assert solver == ("solver_0", 0.5, "solver_0")
    assert [row[1:] for row in others] == [(6, "solver_0")] * 3
    assert culprit(game.actions) == "solver_0"
    assert attribute(game.trajectory, game.card).culprit == 0


CATCHING = {
    "uncaught": ("print({plan})",),
    "says so": ("try:", "    print({plan})", "except Exception as error:", "    print(f'error: {error}')"),
    "other words": ("try:", "    print({plan})", "except Exception:", "    print('cannot compute: {plan}')"),
    "exits": ("import sys", "try:", "    print({plan})", "except Exception:", "    sys.exit(1)"),
    "exits in words": (
        "import sys",
        "try:",
        "    print({plan})",
        "except Exception as error:",
        "    sys.exit(f'ValueError: none, {error}')",
    ),
    "raises": (
        "try:",
        "    print({plan})",
        "except Exception as error:",
        "    raise RuntimeError('no value') from error",
    ),
    "silent": ("try:", "    value = {plan}", "except Exception:", "    pass"),
    "a string": ("try:", "    eval({plan!r})", "except Exception:", "    print('geht nicht')"),
}
IDLING = {
    "silent": ("pass",),
    "greets": ("print('hello')",),
    "in words": ("print('the plan has no value')",),
    "in French": ("print('Le plan est impossible.')",),
    "quotes it": ("print({plan!r})",),
    "exits": ("raise SystemExit('blocked')",),
    "looks busy": ("import math", "data = {}", "for key in data:", "    print(key)"),
}
VALUELESS = [
    "1/0",
    "3 + 1//0",
    "price * quantity",
    "math.sqrt(-1)",
    "math.log(0)",
    "int('x')",
    "math.comb(3)",
    "float(7) % 0",
    "sum([1, x])",
]


@pytest.mark.parametrize("plan", VALUELESS)
@pytest.mark.parametrize("wording", CATCHING)
def test_who_gets_a_plan_without_a_value_is_blocked_however_it_says_so(
    games: dict[str, Episode], plan: str, wording: str
) -> None:
    game = games["mathchat"]
    if wording == "other words":
        plan = plan.replace("'x'", '"x"')
    said = code("import math", *_filled(CATCHING[wording], plan))
    for report in ("It has no value.", f"result: none (the plan was {plan})"):
        rows = play(game, f"plan: {plan}", said, report, r"\boxed{none}")
        assert [row[1] for row in rows] == [0.5, 6, 6, 6]
        assert {row[2] for row in rows} == {"solver_0"}
        assert culprit(game.actions) == "solver_0"
        assert attribute(game.trajectory, game.card).culprit == 0


def _filled(lines: tuple[str, ...], plan: str) -> list[str]:
    return [line.replace("{plan}", plan).replace("{plan!r}", repr(plan)) for line in lines]


@pytest.mark.parametrize("plan", VALUELESS)
@pytest.mark.parametrize("wording", IDLING)
def test_who_does_not_try_a_plan_without_a_value_is_idle(
    games: dict[str, Episode], plan: str, wording: str
) -> None:
    game = games["mathchat"]
    rows = play(
        game, f"plan: {plan}", code(*_filled(IDLING[wording], plan)), "I am blocked.", r"\boxed{none}"
    )
    assert [row[2] for row in rows[:3]] == ["solver_0", "coder_0", "coder_0"]
    assert max(row[1] or 0 for row in rows[1:3]) <= 3
    assert rows[3][1] == 6
    assert culprit(game.actions) in ("solver_0", "coder_0")


STEPWISE = [
    ("7 + 4 + 9 + 2/0", ("total = sum([7, 4, 9])", "parts = (2, 0)", "if not parts[1]:", "    quit()")),
    ("sum([7, 4]) / 0", ("a, b, c = map(int, ['7', '4', '0'])", "print('ok' if c else 'undefined')")),
    ("digitsum(7492)", ("try:", "    print(digitsum(int('7492')))", "except NameError:", "    print('no')")),
]


@pytest.mark.parametrize(("plan", "lines"), STEPWISE)
def test_who_tries_a_plan_step_by_step_has_tried(
    games: dict[str, Episode], plan: str, lines: tuple[str, ...]
) -> None:
    rows = play(games["mathchat"], f"plan: {plan}", code(*lines), "No value.", r"\boxed{none}")
    assert [row[1:] for row in rows[1:]] == [(6, "solver_0")] * 3


@pytest.mark.parametrize("plan", VALUELESS)
def test_who_prints_a_number_of_its_own_or_runs_nothing_is_judged_by_that(
    games: dict[str, Episode], plan: str
) -> None:
    game = games["mathchat"]
    rows = play(game, f"plan: {plan}", code("print({wrong})"), "result: {wrong}", r"\boxed{{wrong}}")
    assert rows[1] == ("coder_0", 1, "coder_0")
    assert rows[2] == ("coder_0", 2, "coder_0")
    rows = play(game, f"plan: {plan}", code("print({gold})"), "result: {gold}", r"\boxed{{gold}}")
    assert [row[1] for row in rows[1:]] == [10] * 3
    rows = play(game, f"plan: {plan}", "It has no value.", r"\boxed{none}")
    assert (rows[1][1] or 0) <= 3
    assert rows[1][2] == "coder_0"


def test_who_declines_a_wrong_value_did_not_make_it(games: dict[str, Episode]) -> None:
    game = games["mathchat"]
    rows = play(game, "plan: {expr}", code("print({wrong})"), "result: {wrong}", r"\boxed{none}")
    assert [row[1] for row in rows] == [10, 1, 2, 4]
    assert rows[-1][2] == "coder_0"
    assert culprit(game.actions) == "coder_0"
    assert attribute(game.trajectory, game.card).culprit == 1


def test_a_report_in_words_is_a_report(games: dict[str, Episode]) -> None:
    said = "The code printed {gold}, which agrees with the plan."
    rows = play(games["mathchat"], "plan: {expr}", code("print({gold})"), said, r"\boxed{{gold}}")
    assert [row[1:] for row in rows] == [(10, None), (10, None), (8, None), (10, None)]


@pytest.mark.parametrize("wording", OWN)
def test_to_quote_a_plan_excuses_no_crash(games: dict[str, Episode], wording: str) -> None:
    game = games["mathchat"]
    rows = play(game, f"plan: {BROKEN}", code(*OWN[wording]), "It crashed.", r"\boxed{none}")
    assert rows[1] == ("coder_0", 2, "coder_0")
    assert rows[2] == ("coder_0", 0, "coder_0")
    assert attribute(game.trajectory, game.card).culprit in (1, 2)


@pytest.mark.parametrize(
    "report", ["result: {wrong}", "The answer is {wrong}.", r"So it is \boxed{{wrong}}."]
)
def test_who_repeats_its_own_wrong_output_does_not_repair_it(games: dict[str, Episode], report: str) -> None:
    game = games["mathchat"]
    rows = play(game, "plan: {expr}", code("print({wrong})"), report, r"\boxed{{gold}}")
    assert [row[1] for row in rows] == [10, 1, 2, 10]
    rows = play(game, "plan: {wrong}", code("print({wrong})"), report, r"\boxed{{gold}}")
    assert rows[2] == ("coder_0", 8, "solver_0")


@pytest.mark.parametrize(
    "words", ["", "I checked the plan, the code and its output. ", "Ich habe alles geprüft: "]
)
@pytest.mark.parametrize(
    ("plan", "output", "report", "box", "score"),
    [
        ("{expr}", "{wrong}", "{wrong}", "{wrong}", 4),
        ("{expr}", "{gold}", "{wrong}", "{wrong}", 4),
        ("{expr}", "{wrong}", "{wrong}", "{gold}", 10),
        ("", "{wrong}", "{wrong}", "{wrong}", 8),
        ("{wrong}", "{wrong}", "{wrong}", "{wrong}", 8),
        ("{wrong}", "{other}", "{other}", "{other}", 6),
        ("{expr}", "{wrong}", "{wrong}", "{other}", 1),
    ],
)
def test_a_judge_that_copies_what_it_could_see_to_be_wrong_coasts(
    games: dict[str, Episode], plan: str, output: str, report: str, box: str, score: float, words: str
) -> None:
    game, solver = games["mathchat"], f"plan: {plan}" if plan else "First this, then that."
    rows = play(game, solver, code(f"print({output})"), f"result: {report}", rf"{words}\boxed{{{box}}}")
    assert rows[-1][1] == score
    if score == 4:
        worst = min(rows[:3], key=lambda row: row[1] or 0)
        assert (worst[0], worst[1]) == ("coder_0", 1)
        assert culprit(game.actions) == "coder_0"


@pytest.mark.parametrize(("plan", "score"), [("{expr}", 4), ("{wrong}", 8)])
def test_a_manager_that_copies_coasts_too(games: dict[str, Episode], plan: str, score: float) -> None:
    game = games["math_manager"]
    rows = play(
        game,
        "next: solver_0",
        f"plan: {plan}",
        "next: coder_0",
        code("print({wrong})"),
        "result: {wrong}",
        "\\boxed{{wrong}}\nnext: done",
    )
    assert rows[-1][1] == score
    assert culprit(game.actions) == ("coder_0" if score == 4 else "solver_0")


@pytest.mark.parametrize("first", [0, 1])
def test_a_judge_of_a_debate_answers_for_its_choice_in_code_as_in_words(
    games: dict[str, Episode], first: int
) -> None:
    said = ["answer: {expr}", "answer: {wrong}"]
    rounds = [said[first], said[1 - first]] * 3
    rows = play(games["math_debate"], *rounds, code("print({wrong})"), r"\boxed{{wrong}}")
    assert [row[1:] for row in rows[-2:]] == [(1, "judge_0")] * 2
    rows = play(games["math_debate"], *["answer: {wrong}"] * 2, code("print({wrong})"), r"\boxed{{wrong}}")
    assert [row[1:] for row in rows[-2:]] == [(8, "debater_0")] * 2
