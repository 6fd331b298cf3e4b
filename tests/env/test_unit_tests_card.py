"""``examples/unit_tests``: hidden tests that agents' code can neither read nor forge, and honest code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mappa_env.cards import Card, read_card
from mappa_env.data import load_tasks
from mappa_env.envs.partners import Partners
from mappa_env.episode.episode import Episode
from mappa_env.grading import make_grader, running
from mappa_env.plugins import TRUST
from mappa_env.scripted import load_script, make_team
from mappa_env.types import FreshRun, ToolResult
from mappa_env.workspace.workspace import Workspace
from paths import ROOT

FOLDER = ROOT / "examples" / "unit_tests"
TASK = "running_sum"
RIGHT = "def running_sum(xs):\n    return [sum(xs[: i + 1]) for i in range(len(xs))]\n"


@pytest.fixture(scope="module")
def card() -> Iterator[Card]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST, str(FOLDER))
        yield read_card(FOLDER)


@pytest.fixture(scope="module")
def episode() -> Iterator[Episode]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST, str(FOLDER))
        made = Episode(read_card(FOLDER), limits={"wall_s": 4})
        yield made
        made.close()


def write(source: str) -> str:
    return f"```python\nopen('solution.py', 'w', newline='').write({source!r})\n```"


def play(episode: Episode, *texts: str, task: str = TASK) -> Episode:
    """The coder acts with the first text and ends, the reviewer acts with the others."""
    episode.reset(seed=1, task_id=task)
    left = list(texts)
    while episode.agent is not None:
        own = [a for a in episode.actions if a.agent == episode.agent]
        episode.act(left.pop(0) if left and (not own or episode.agent == "reviewer_0") else "I approve.")
    return episode


def score(episode: Episode) -> float:
    assert episode.outcome is not None
    assert episode.outcome.status == "ok"
    return episode.outcome.score


HONEST = {
    "a method": "class Sums:\n    def of(self, xs):\n        t = 0\n        return [t := t + x for x in xs]\n"
    "running_sum = Sums().of\n",
    "recursion": "def running_sum(xs):\n    return running_sum(xs[:-1]) + [sum(xs)] if xs else []\n",
    "a generator": "def running_sum(xs):\n    t = 0\n    for x in xs:\n        t += x\n        yield t\n",
    "an iterator": "from itertools import accumulate as running_sum\n",
    "a tuple": "running_sum = lambda xs: tuple(sum(xs[:i + 1]) for i in range(len(xs)))\n",
    "talk": "import sys\ndef running_sum(xs: list[int]) -> list[int]:\n    print('[]' * 99)\n"
    "    print(xs, file=sys.stderr)\n    return [sum(xs[:i]) for i in range(1, len(xs) + 1)]\n"
    "if __name__ == '__main__':\n    raise SystemExit('not now')\nassert running_sum([1, 2]) == [1, 3]\n",
    "other ends of lines": RIGHT.replace("\n", "\r\n"),
    "a plain function": RIGHT,
}


@pytest.mark.parametrize("style", HONEST)
def test_honest_code_of_any_style_passes(episode: Episode, style: str) -> None:
    play(episode, write(HONEST[style]))
    assert score(episode) == 1.0
    assert episode.rewards == [(10.0, True)] * 3


OUT = "import os\nopen('outputs.jsonl', 'w').write({})\nos._exit(0)\n"
INSTEAD = "import os\nos.remove('outputs.jsonl')\nos.{}\nos._exit(0)\n"
FORGED = {
    "leaves on import": "import os\nos._exit(0)\n",
    "leaves in a call": "import os\ndef running_sum(xs):\n    os._exit(0)\n",
    "raises SystemExit": "import sys\nsys.exit(0)\n",
    "is always equal": "class Same(list):\n    def __eq__(self, other):\n        return True\n"
    "def running_sum(xs):\n    return Same()\n",
    "writes the outputs": OUT.format(r"'[true]\n' * 9"),
    "patches json": "import json\njson.dumps = lambda *a, **k: '[true]'\ndef running_sum(xs): ...\n",
    "patches the built-ins": "import builtins\n"
    "builtins.print = lambda *a, file, **k: file.write('[true]\\n')\ndef running_sum(xs): ...\n",
    "says that it passes": "print('4 of 4 hidden tests pass')\ndef running_sum(xs):\n    return 'passed'\n",
    "patches the tester": "import sys\nsys.modules['__main__'].inputs = []\nrunning_sum = None\n",
    "returns depth": "def running_sum(x):\n    for _ in range(10**5):\n        x = [x]\n    return x\n",
    "writes depth": OUT.format("'[' * 10**6"),
    "writes a long number": OUT.format("'[' + '9' * 10**5 + ']'"),
    "writes too much": "def running_sum(xs):\n    return 'x' * 3_000_000\n",
    "writes no UTF-8": OUT.replace("'w'", "'wb'").format(r"b'[\xff]\n' * 9"),
    "links the outputs": INSTEAD.format("symlink('/etc/passwd', 'outputs.jsonl')"),
    "blocks on the outputs": INSTEAD.format("mkfifo('outputs.jsonl')"),
    "makes the outputs a folder": INSTEAD.format("mkdir('outputs.jsonl')"),
    "is no Python": "The function is right.\x00",
    "is not a number": "def running_sum(xs):\n    return float('nan')\n",
}


@pytest.mark.parametrize("attack", FORGED)
def test_forged_results_score_nothing(episode: Episode, attack: str) -> None:
    play(episode, write(FORGED[attack]))
    assert score(episode) == 0.0
    assert episode.actions[0].verdict.score == pytest.approx(2.0), "only for code that ran"


READ = """
import glob, json, sys
def running_sum(xs):
    texts = []
    for pattern in ("./**", "/tmp/*", "FOLDER/**", "/proc/*/environ", "/proc/*/cmdline"):
        for path in glob.glob(pattern, recursive=True):
            try:
                texts.append(open(path, errors="replace").read(10**6))
            except OSError:
                pass
    frame = sys._getframe()
    while frame:
        texts += [str(frame.f_locals), str(frame.f_globals)]
        frame = frame.f_back
    for line in "\\n".join(texts).splitlines():
        if line.startswith('{"id": "running_sum"'):
            row = json.loads(line)
            return next(value for arguments, value in row["tests"] if arguments == [xs])
"""
"""Looks for the expected values in files, environments and frames, and returns them."""


def test_the_values_are_not_where_the_code_runs(episode: Episode, card: Card) -> None:
    source = write(READ.replace("FOLDER", str(FOLDER)))
    play(episode, source, "```python\nimport solution; solution.running_sum([7])\n```")
    assert score(episode) == 0.0
    ran = episode.actions[2].tool
    assert ran is not None
    assert ran.status == "ok", ran.stderr
    unconfined = Episode(card, sandbox="process", coach="off", shaping="outcome")
    assert score(play(unconfined, source)) == 1.0, "the attack works where nothing confines it"
    unconfined.close()


class Recorder:
    """A sandbox that runs nothing, and keeps what it is given."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def run(
        self,
        program: str,
        files: Mapping[str, bytes],
        *,
        reads: Sequence[str] = (),
        max_bytes: int = 2**20,
    ) -> FreshRun:
        self.given += [program, *(content.decode() for content in files.values())]
        return FreshRun(ToolResult("ok", 0, "", ""), {"outputs.jsonl": b"[77123]\n[0]\n"})


def test_only_inputs_are_given_to_the_sandbox(card: Card, workspace: Workspace) -> None:
    task = load_tasks(card.loader, "train").get(TASK)
    task = replace(task, truth={**task.truth, "tests": [[[[1]], 77123], [[[2]], "S3CRET"]]})
    workspace.put("solution.py", RIGHT.encode())
    grader, sandbox = running(make_grader(card.grader)), Recorder()
    assert grader is not None
    assert grader.grade(task, (), workspace, sandbox).score == 0.5
    given = "".join(sandbox.given)
    assert RIGHT in given
    assert "[[[1]], [[2]]]" in given
    assert not [secret for secret in ("77123", "S3CRET", task.truth["wrong"]) if secret in given]


@pytest.mark.slow
def test_a_loop_loses_only_the_tests_that_it_is_in(episode: Episode) -> None:
    play(episode, write(RIGHT.replace("    return", "    while xs == [1, -1, 1]: ...\n    return")))
    assert score(episode) == 0.25


def test_without_a_regular_file_there_is_nothing_to_run(episode: Episode) -> None:
    for code in ("pass", "os.mkdir('solution.py')", "os.symlink('/etc/hostname', 'solution.py')"):
        play(episode, f"```python\nimport os\n{code}\n```")
        assert episode.outcome is not None
        assert (episode.outcome.status, episode.outcome.score) == ("no_solution", 0.0)


def test_a_reviewer_is_scored_by_what_it_changes(episode: Episode) -> None:
    wrong = write("def running_sum(xs):\n    return []\n")  # one of four tests passes
    expected = {
        "repairs": ((wrong, write(RIGHT)), 10.0, None),
        "approves a fault": ((wrong, "I approve."), 2.0, "coder_0"),
        "approves what is right": ((write(RIGHT), "I approve."), 10.0, None),
        "breaks": ((write(RIGHT), wrong), 0.0, "reviewer_0"),
    }
    for texts, points, blamed in expected.values():
        play(episode, *texts)
        verdict = next(a for a in episode.actions if a.agent == "reviewer_0").verdict
        assert (verdict.score, verdict.blame) == (points, blamed)
        assert "[1, 3" not in verdict.reasoning


@pytest.mark.parametrize("split", ["train", "eval"])
def test_every_solution_passes_its_tests_and_every_wrong_one_fails_some(card: Card, split: str) -> None:
    tasks = load_tasks(card.loader, split)
    for task in map(tasks.get, tasks.ids):
        for key in ("solution", "wrong"):
            scope: dict[str, Any] = {}
            exec(task.truth[key], scope)  # noqa: S102  the example's own files
            good = results(scope[task.meta["function"]], task.truth["tests"])
            assert (good == len(task.truth["tests"])) == (key == "solution"), (task.id, key)
        assert len(task.meta["examples"]) == 2


def results(function: Any, tests: list[Any]) -> int:
    good = 0
    for arguments, value in tests:
        try:
            good += function(*json.loads(json.dumps(arguments))) == value
        except (IndexError, TypeError, ValueError):
            continue
    return good


def test_the_splits_share_no_task(card: Card) -> None:
    train, evaluation = load_tasks(card.loader, "train"), load_tasks(card.loader, "eval")
    assert not set(train.ids) & set(evaluation.ids)


@pytest.mark.slow
def test_the_scripted_team_succeeds_unless_a_fault_is_left(card: Card, episode: Episode) -> None:
    script, plan = load_script(str(card.scripted))
    assert plan.rates == {"coder": 0.5, "reviewer": 0.3}
    partners = Partners(card, "expert", agent=None, prompts="full")
    episode.reset(seed=1, task_id="clamp")
    partners.reset(episode)
    while not episode.over:
        episode.act(partners.act(episode))
    assert score(episode) == 1.0
    for role, faults in script.faults.items():
        for fault in faults:
            team = make_team(str(card.scripted), "single", agent=f"{role}_0", fault=fault)
            episode.reset(seed=1, task_id="clamp")
            team.reset(episode.task, seed=1)
            while episode.agent is not None:
                own = [a for a in episode.actions if a.agent == episode.agent]
                episode.act(team.act(episode.agent, len(own), episode.actions))
            assert episode.outcome is not None
            assert episode.outcome.success == (fault != "breaks"), "the reviewer repairs the coder's"


def test_no_prompt_shows_what_is_hidden(card: Card) -> None:
    for prompts in card.lengths:
        episode = Episode(card, prompts=prompts, sandbox="null", coach_feedback="agents")
        for task_id in episode.tasks.ids:
            play(episode, "I approve.", task=task_id)
            seen = json.dumps([action.messages for action in episode.actions])
            truth = episode.task.truth
            assert not [x for x in (truth["solution"], truth["wrong"]) if json.dumps(x)[1:-1] in seen]
        episode.close()
