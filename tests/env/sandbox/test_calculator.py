"""The calculator sandbox prints what a real interpreter prints, or passes the script to one."""

from __future__ import annotations

import contextlib
import io
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import envs_registry
from mappa_env.cards import read_card
from mappa_env.episode.episode import Episode
from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.calculator import CalculatorSandbox, _printed
from mappa_env.sandbox.local.isolation_levels import LEVELS
from mappa_env.sandbox.process import ProcessSandbox
from mappa_env.scripted import make_team
from mappa_env.workspace.workspace import Workspace

IMPORTS = ["", "from math import *\n", "from math import gcd, lcm\n", "from math import comb\n"]
FUNCTIONS = ["gcd", "lcm", "comb", "isqrt", "abs", "min", "max", "sum", "range", "floor"]


def scripts(episodes: int) -> list[str]:
    """The distinct scripts of the compact teams."""
    card = read_card(envs_registry.ROOT / "mathchat")
    episode = Episode(card, coach="off", sandbox="null", prompts="compact")
    found = set()
    for kind in ("expert", "faulty"):
        team = make_team("mathchat", kind, style="compact")
        for seed in range(episodes):
            episode.reset(seed=seed)
            team.reset(episode.task, seed)
            while episode.agent is not None:
                code = episode.act(team.act(episode.agent, episode.turn, episode.actions)).code
                found |= {code} if code is not None else set()
    episode.close()
    return sorted(found)


def interpreted(code: str) -> str | None:
    """What a harmless script prints when it runs in this process; None if it fails."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(code, "<script>", "exec", dont_inherit=True), {})  # noqa: S102  only what was valued
        except Exception:  # noqa: BLE001  any failure is an answer
            return None
    return out.getvalue()


def test_the_teams_scripts_give_the_same_in_both_sandboxes() -> None:
    calculator, process = CalculatorSandbox(), ProcessSandbox()
    answers = dict.fromkeys(scripts(60))
    assert len(answers) > 60
    assert sum(_printed(code) is not None for code in answers) > 0.8 * len(answers)
    with Workspace() as workspace:
        for code in list(answers)[::3]:
            real = process.run(workspace, code, Limits())
            quick = calculator.run(workspace, code, Limits())
            assert (quick.status, quick.exit_code, quick.stdout, quick.files) == (
                real.status,
                real.exit_code,
                real.stdout,
                real.files,
            ), code
    for code in answers:  # in this process, to save starting interpreters
        printed = _printed(code)
        assert printed is None or printed == interpreted(code), code


number = st.integers(0, 40).map(str)
expression = st.recursive(
    number,
    lambda inner: st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from(["+", "-", "*", "//", "%", "**", "/"]), inner),
        st.builds("({})".format, inner),
        st.builds("-{}".format, inner),
        st.builds("{}({})".format, st.sampled_from(FUNCTIONS), st.lists(inner, max_size=3).map(", ".join)),
        st.builds("sum(range({}))".format, st.lists(inner, min_size=1, max_size=3).map(", ".join)),
    ),
    max_leaves=8,
)
scripted = st.builds(
    "{}{}{}".format,
    st.sampled_from(IMPORTS),
    expression.map("print({})".format) | expression,
    st.sampled_from(["", "\n", " ", "\n\n"]),
)
hostile = st.text(alphabet="0129az+-*/%(), \n", max_size=12) | st.builds(
    "print({})".format, st.text(alphabet="019+-*/%(), ", max_size=10)
)


@settings(max_examples=400, deadline=None)
@given(scripted | hostile)
@example(" 5")  # an indented line
@example("from math import gcd, nonsense\nprint(gcd(4, 6))")
@example("from math import gcd\nprint(lcm(4, 6))")
@example("print(7 / 2)")
@example("print(0 ** 0)")
@example("print(007)")
@example("print(-7 // 2)")
@example("print(1)(2)")
@example("print(1),(2)")
@example("print(sum(range(40 ** 10, 3, -1)))")
@example("print(sum(range(0, 10 ** 6)))")
@example("print( sum(range(5)))")
def test_whatever_it_values_python_values_the_same(code: str) -> None:
    printed = _printed(code)
    if printed is not None:  # then it is short, bounded and made of numbers and known functions
        assert interpreted(code) == printed


@pytest.mark.parametrize(
    "code",
    [
        "import os\nprint(os.getcwd())",
        "open('a', 'w').write('1')",
        "print(2 ** 100000)",
        "print(sum(range(10 ** 12)))",  # an interpreter needs longer than an action may take
        "print(1 + sum(range(3 ** 9, 40 ** 9, 2)))",
        "print(x)",
        "",
        "'a'",
    ],
)
def test_everything_else_is_left_to_an_interpreter(code: str) -> None:
    assert _printed(code) is None


def test_files_of_a_real_script_are_in_the_diff() -> None:
    with Workspace() as workspace:
        result = CalculatorSandbox().run(workspace, "open('a', 'w').write('1')", Limits())
    assert (result.isolation in LEVELS, [change.path for change in result.files]) == (True, ["a"])
