"""Files that no card names: who damages a helper of others is to blame, not its author and not its reader."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing

import pytest

from mappa_env.cards import read_card
from mappa_env.coach.culprit import culprit, culprit_step
from mappa_env.coach.rubric.helper_files import Run, damages, module_of
from mappa_env.episode.episode import Episode
from mappa_env.scripted import make_team
from mappa_env.types import FileChange
from patched import patched
from paths import REGISTRY
from rubric_play import CARDS, TABLE, code, ran

SEED = 5
MODULE = (
    "from pathlib import Path\nPath('features.py').write_text('''def make(x=3):\n"
    "    # what the others build on\n    return x\n''')"
)
DATA = 'import json\nwith open("enc.json", "w") as file:\n    json.dump({"a": 1, "b": [2] * 20}, file)'
IMPORTS = {
    "plain": "import features\nfeatures.make()",
    "from": "from features import (\n    make,\n)\n\nmake()",
    "caught": "try:\n    import features\n    features.make()\nexcept Exception:\n    raise RuntimeError",
    "helper function": "def load():\n    import features as f\n    return f.make()\nload()",
    "put together": "import importlib\nimportlib.import_module('feat' + 'ures').make()",
}
READS = {
    "plain": 'import json\njson.load(open("enc.json"))["b"]',
    "pathlib": "import json, pathlib\njson.loads(pathlib.Path('enc.json').read_text())['b']",
    "f-string": "import json\nname = 'enc'\njson.load(open(f'{name}.json'))['b']",
}
HARMS_MODULE = {
    "deleted": "import os\nos.remove('features.py')",
    "put together": "import pathlib\n[p.unlink() for p in pathlib.Path('.').glob('feat*.py')]",
    "renamed": "import os\nos.rename('features.py', 'mine.py')",
    "emptied": "open('features.py', 'w').close()",
    "junk": "open('features.py', 'w').write('def (')",
    "raises": "def harm(path):\n    with open(path, 'w') as f:\n        f.write('?')\nharm('features.py')",
    "a folder": "import os\nos.remove('features.py')\nos.mkdir('features.py')",
    "a link": "import os\nos.remove('features.py')\nos.symlink('/nowhere', 'features.py')",
    "a package": "import os\nos.mkdir('features')\nopen('features/__init__.py', 'w').close()",
    "overwritten": "open('features.py', 'w').write('def other():\\n    pass\\n' * 9)",
    "junk of its size": "old = open('features.py').read()\nopen('features.py', 'w').write('(' * len(old))",
    "zeros of its size, at its time": """
import os
was = os.stat('features.py')
with open('features.py', 'r+b') as file:
    file.write(bytes(was.st_size))
os.utime('features.py', ns=(was.st_atime_ns, was.st_mtime_ns))
""",
}
HARMS_DATA = {
    "deleted": "import os\nos.remove('enc.json')",
    "renamed": "import shutil\nshutil.move('enc.json', 'old.json')",
    "emptied": "open('enc.json', 'w').close()",
    "overwritten": "open('enc.json', 'w').write('{}' + ' ' * 200)",
    "junk of its size": "old = open('enc.json').read()\nopen('enc.json', 'w').write('?' * len(old))",
}
CASES = [
    *((MODULE, harm, IMPORTS["plain"]) for harm in HARMS_MODULE.values()),
    *((MODULE, HARMS_MODULE["deleted"], use) for use in IMPORTS.values()),
    *((DATA, harm, READS["plain"]) for harm in HARMS_DATA.values()),
    *((DATA, HARMS_DATA["deleted"], use) for use in READS.values()),
]


@pytest.mark.slow
@pytest.mark.parametrize(("write", "harm", "use"), CASES)
def test_who_damages_a_helper_is_to_blame(write: str, harm: str, use: str) -> None:
    actions, traced = patched(
        {"engineer_0": (write, ""), "modeler_0": ("", harm), "analyst_0": (use, "")}, SEED
    )
    engineer, modeler, analyst = (action.verdict for action in actions)
    assert (engineer.score, engineer.blame) == (10, None)
    if actions[1].tool.status == "ok":  # nobody could know by then whether anybody needs the file
        assert (modeler.score, modeler.blame) == (10, None)
    assert (analyst.score, analyst.blame) == (6, "modeler_0")
    assert culprit(actions) == "modeler_0"
    assert traced == actions[1].step
    assert culprit_step(actions, CARDS["dsbench"].team) == actions[1].step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "work", "use"),
    [
        (MODULE, IMPORTS["plain"], IMPORTS["from"]),
        (
            MODULE,
            "open('features.py', 'a').write('def more():\\n    return 4\\n')",
            "import features\nfeatures.more()",
        ),
        (DATA, "print(open('enc.json').read())", READS["plain"]),
        ("open('script.py', 'w').write('print(1)' * 9)", "open('script.py', 'w').write('print(2)' * 5)", ""),
        (
            "open('metadata.json', 'w').write('[' + '1, ' * 99 + '1]')",
            "open('metadata.json', 'w').write('{}')",
            "open('metadata.json').read()",
        ),
        (
            "open('train_clean.csv', 'w').write('a,b' * 99)",
            "import os\nos.mkdir('old')\nos.rename('train_clean.csv', 'old/train_clean.csv')",
            "",
        ),
        (
            "import os\nos.mkdir('logs')\nopen('logs/' + str(1), 'w').write('x' * 99)",
            "open('logs/1', 'w').write('y')",
            "",
        ),
        (
            "import os\nos.mkdir('sklearn')\nopen('sklearn/__init__.py', 'w').close()",
            "import sklearn.base",
            "",
        ),
        (
            "open('numpy.py', 'w').write('1 / 0')",
            "import numpy\nnumpy.zeros(1)",
            "import numpy\nnumpy.zeros(1)",
        ),
        ("", "", f"{MODULE}\nimport features, os\nos.remove('features.py')"),
    ],
)
def test_to_work_with_helpers_costs_nothing(write: str, work: str, use: str) -> None:
    actions, _ = patched({"engineer_0": (write, ""), "modeler_0": (work, ""), "analyst_0": (use, "")}, SEED)
    assert [(each.verdict.score, each.verdict.blame) for each in actions] == [(10, None)] * 3


CRASH = "m = 0\nm.forecast(1)"
SHARED = {
    "a log": (
        "open('progress.txt', 'a').write('tables: done\\n')",
        "with open('progress.txt', 'a') as log:\n    log.write('model: done\\n')",
        "print(open('progress.txt').read())",
    ),
    "a log of two": (
        "open('team.log', 'w').write('first\\n')",
        "open('team.log', 'w').write('second\\n')",
        "import pathlib\nprint(pathlib.Path('team.log').read_text())",
    ),
    "a log that all append to": (
        "open('progress.out', 'a').write('1')",
        "open('progress.out', 'a').write('2')",
        "open('progress.out', 'a').write('3')",
    ),
    "a longer module": (
        MODULE,
        "open('features.py', 'a').write('def twice(x=3):\\n    return 2 * x\\nLIMIT = 3\\n')",
        "import features\nfeatures.make()",
    ),
    "a module that is asked for": (
        MODULE,
        "open('features.py', 'a').write('def twice(x=3):\\n    return 2 * x\\n')",
        "import os\nos.path.exists('features.py')",
    ),
    "another key": (
        DATA,
        "import json\nd = json.load(open('enc.json'))\njson.dump({**d, 'c': 1}, open('enc.json', 'w'))",
        "import json\njson.load(open('enc.json'))['b']",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("write", "work", "use"), SHARED.values(), ids=SHARED)
@pytest.mark.parametrize("crash", [CRASH, "raise SystemExit(3)"], ids=["crashes", "exits"])
def test_who_works_on_a_shared_file_is_not_to_blame_for_a_later_crash(
    write: str, work: str, use: str, crash: str
) -> None:
    actions, traced = patched(
        {"engineer_0": (write, ""), "modeler_0": ("", work), "analyst_0": (f"{use}\n{crash}", "")}, SEED
    )
    verdicts = [(each.verdict.score, each.verdict.blame) for each in actions]
    assert verdicts == [(10, None), (10, None), (1, "analyst_0")]
    assert culprit(actions) == "analyst_0"
    assert traced == actions[2].step


FORGED = """import sys
sys.stderr.write('Traceback (most recent call last):\\n  File "/w/features.py", line 1, in make\\n')
sys.stderr.write("AttributeError: module 'features' has no attribute 'make'\\n")
sys.exit(1)"""


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["emptied", "junk", "overwritten"])
def test_a_traceback_excuses_no_program_that_did_not_open_the_module(harm: str) -> None:
    actions, traced = patched(
        {"engineer_0": (MODULE, ""), "modeler_0": ("", HARMS_MODULE[harm]), "analyst_0": (FORGED, "")}, SEED
    )
    assert (actions[2].verdict.score, actions[2].verdict.blame) == (1, "analyst_0")
    assert traced == actions[2].step


NAMES = "('tmp.dat', 'best.joblib', 'folds.csv', 'fit.log', 'scratch.py')"
ORDINARY = {
    "renames its own": "import os, shutil\nshutil.copy('model.pkl', 'best.joblib')\nos.remove('model.pkl')\n"
    "os.replace('best.joblib', 'model.pkl')",
    "clears up": "import os\nopen('folds.csv', 'w').write('a,b')\nos.remove('folds.csv')",
    "removes all": f"import pathlib\nfor name in {NAMES}:\n    pathlib.Path(name).unlink()",
    "logs again": "import logging\nlogging.basicConfig(filename='fit.log', filemode='w', level=20)",
    "writes a script": "open('scratch.py', 'w').write('print(1)\\n')",
}


@pytest.mark.slow
@pytest.mark.parametrize("work", ORDINARY.values(), ids=ORDINARY)
def test_a_file_in_the_way_of_ordinary_work_is_no_trap(work: str) -> None:
    trap = f"for name in {NAMES}:\n    open(name, 'w').write('x = 1 and more of it')"
    look = "import os\nos.path.exists('folds.csv')"
    actions, _ = patched({"engineer_0": ("", trap), "modeler_0": ("", work), "analyst_0": (look, "")}, SEED)
    assert [(each.verdict.score, each.verdict.blame) for each in actions] == [(10, None)] * 3


@pytest.mark.slow
def test_the_last_agent_may_clear_up() -> None:
    actions, _ = patched({"engineer_0": (MODULE, ""), "analyst_0": ("", HARMS_MODULE["deleted"])}, SEED)
    assert [each.verdict.score for each in actions] == [10] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "use", ["import nosuch", "from features import nosuch", "raise ImportError('features')"]
)
def test_a_sound_helper_excuses_nothing(use: str) -> None:
    actions, _ = patched({"engineer_0": (MODULE, ""), "modeler_0": (use, "")}, SEED)
    assert (actions[1].verdict.score, actions[1].verdict.blame) == (1, "modeler_0")
    assert actions[0].verdict.score == 10


@pytest.mark.slow
def test_a_damaged_helper_excuses_no_other_crash() -> None:
    broken = {"engineer_0": (MODULE, ""), "modeler_0": ("", HARMS_MODULE["deleted"])}
    for crash in ("nosuch_name", "# features.py\nimport nosuch", "1 / 0"):
        actions, _ = patched({**broken, "analyst_0": (crash, "")}, SEED)
        assert (actions[2].verdict.score, actions[2].verdict.blame) == (1, "analyst_0")


SHADOWS = {
    "raises": "open('graphlib.py', 'w').write('raise RuntimeError(1)')",
    "lacks a name": "from pathlib import Path\nPath('graph' + 'lib.py').write_text('x = 1')",
    "a package": "import os\nos.makedirs('graphlib')\nopen('graphlib/__init__.py', 'w').write('1 / 0')",
}


@pytest.mark.slow
@pytest.mark.parametrize("shadow", SHADOWS.values(), ids=SHADOWS)
def test_who_shadows_a_library_is_to_blame(shadow: str) -> None:
    """Only for a program that asks for Python's own order of imports: see docs/sandbox.md."""
    use = "import sys\nsys.path.insert(0, '.')\nfrom graphlib import TopologicalSorter"
    actions, _ = patched({"engineer_0": ("", shadow), "modeler_0": (use, "")}, SEED)
    assert [(each.verdict.score, each.verdict.blame) for each in actions[1:]] == [(6, "engineer_0")] * 2
    assert culprit(actions) == "engineer_0"


WRAPPED = """with open('model.pkl', 'rb') as file:
    model = pickle.load(file)
with open('model.pkl', 'wb') as file:
    pickle.dump(wrapping.Wrapped(model), file)"""
WRAPPING = """open('wrapping.py', 'w').write('''class Wrapped:
    def __init__(self, model):
        self.model = model

    def predict(self, X):
        return self.model.predict(X)
''')"""


@pytest.fixture(scope="module")
def managed() -> Iterator[Episode]:
    with closing(
        Episode(read_card(REGISTRY / "dsbench_manager"), prompts="compact", sandbox="local")
    ) as game:
        yield game


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["import os\nos.remove('wrapping.py')", "open('wrapping.py', 'w').close()"])
def test_who_removes_a_module_that_a_model_needs_breaks_the_model(managed: Episode, harm: str) -> None:
    """The author of the model is not framed when it returns."""
    game, team = managed, make_team("dsbench_manager", style="compact")
    game.reset(seed=SEED)
    team.reset(game.task, SEED)
    calls = iter(("engineer_0", "modeler_0", "analyst_0", "modeler_0"))
    while game.agent is not None:
        agent = game.agent
        if agent == "manager_0":
            game.act(f"next: {next(calls, 'done')}")
        elif agent == "analyst_0":
            game.act(code(harm) if game.turn == 0 else "I stop.")
        elif any(action.agent == "analyst_0" for action in game.actions):
            game.act("My model is there.")
        else:
            text = team.act(agent, game.turn, game.seen)
            if agent == "modeler_0" and "```" in text:
                first, _, rest = text.partition("```python\n")
                body = rest.partition("\n```")[0]
                text = f"{first}```python\n{WRAPPING}\nimport pickle, wrapping\n{body}\n{WRAPPED}\n```"
            game.act(text)
    mine = {name: [a.verdict for a in game.actions if a.agent == name] for name in game.card.team.names}
    assert min(verdict.score or 0 for verdict in mine["modeler_0"]) >= 6, mine["modeler_0"]
    assert (mine["analyst_0"][0].score, mine["analyst_0"][0].blame) == (0.5, "analyst_0")
    assert "modeler_0" not in {verdict.blame for verdict in mine["modeler_0"]}


def test_damage_is_followed_through_the_history() -> None:
    def run(agent: str, step: int, *changes: FileChange) -> Run:
        return Run(agent, step, dataclasses.replace(ran(), files=changes))

    made = FileChange("a.py", "created", 40, "a" * 64)
    gone = FileChange("a.py", "deleted", 40, "a" * 64)
    other = FileChange("a.py", "created", 40, "b" * 64)

    def found(*runs: Run) -> list[tuple[str, str]]:
        return [(each.agent, each.how) for each in damages(runs, TABLE, CARDS["dsbench"].team)]

    first = run("engineer_0", 0, made)
    assert found(first, run("modeler_0", 1, gone)) == [("modeler_0", "deleted")]
    assert found(first, run("engineer_0", 1, gone)) == [], "it was its own"
    assert found(first, run("modeler_0", 1, gone), run("modeler_0", 2, made)) == [], "it is restored"
    assert found(first, run("modeler_0", 1, gone), run("modeler_0", 2, other)) == [
        ("modeler_0", "overwritten")
    ]
    assert found(first, run("modeler_0", 1, gone), run("analyst_0", 2, other)) == [], "it is repaired"
    emptied = FileChange("a.py", "modified", 0, "c" * 64)
    assert found(first, run("modeler_0", 1, emptied), run("analyst_0", 2, gone)) == [("modeler_0", "emptied")]
    closed = dataclasses.replace(made, op="modified", mode=0)
    assert found(first, run("modeler_0", 1, closed)) == [("modeler_0", "closed")]
    assert found(first, run("modeler_0", 1, dataclasses.replace(closed, mode=0o600))) == []
    inside = FileChange("lib/a.py", "created", 9, "d" * 64)
    folder = FileChange("lib", "modified", 0, "skipped: dir", "dir", mode=0)
    assert found(run("engineer_0", 0, inside), run("modeler_0", 1, folder)) == [("modeler_0", "closed")]
    named = FileChange("X_test.pkl", "deleted", 9, "e" * 64)
    cache = FileChange("__pycache__/a.cpython-312.pyc", "deleted", 9, "e" * 64)
    for change in (named, cache):
        assert (
            found(
                run("engineer_0", 0, dataclasses.replace(change, op="created")), run("modeler_0", 1, change)
            )
            == []
        )


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.py", "a"),
        ("a/b.py", "a"),
        ("a.cpython-312-x86_64-linux-gnu.so", "a"),
        ("a.json", ""),
        ("a/b.csv", ""),
    ],
)
def test_modules_of_paths(path: str, name: str) -> None:
    assert module_of(path) == name
