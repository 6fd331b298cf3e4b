"""Who used its inputs is what the sandbox observed, however the code is written: played in real episodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mappa_env.cards import read_card
from mappa_env.coach.culprit import culprit
from mappa_env.coach.llm.criteria import BEST, read_spec
from mappa_env.coach.rubric.case import Case
from mappa_env.episode.episode import Episode
from mappa_env.scripted import make_team
from mappa_env.types import Verdict
from paths import REGISTRY

COASTERS = {
    "dead branch": "if False:\n    open('X_test.pkl')",
    "never called": "def load(path='X_test.pkl'):\n    return open(path)",
    "a lambda": "load = lambda: open('X_test.pkl', 'rb')",
    "a method of the name": "print('X_test.pkl'.upper())",
    "a call that opens nothing": "list(map(len, ['X_test.pkl'])), hash('X_test.pkl')",
    "printed traceback": """
import sys
print('''Traceback (most recent call last):
  File "<action>", line 2, in <module>
    open('X_test.pkl')
FileNotFoundError: [Errno 2] No such file or directory: 'X_test.pkl' ''', file=sys.stderr)
sys.exit(1)
""",
    "raised": "raise FileNotFoundError(2, 'No such file or directory', 'X_test.pkl')",
    "raised below a call": "try:\n    open('X_none.pkl')\nexcept OSError:\n    raise OSError('X_test.pkl')",
    "no space": "raise OSError(28, 'No space left on device')",
    "an import that fails": "try:\n    import no_such_package\nexcept ImportError as e:\n    print(e)",
    "versions of packages": "import importlib.metadata as m\nprint([d.name for d in m.distributions()][:3])",
    "imports what could": "import ctypes\nprint('X_test.pkl is missing')",
    "imports what could, raises": "import ctypes, sys\nraise FileNotFoundError(2, 'none', 'X_test.pkl')",
    "imports what could, fails": "import ctypes\ndef load():\n    1 / 0\nload()",
    "an empty program": "import subprocess\nsubprocess.run(['true'])",
    "an empty shell": "import os\nos.system('')\nos.system('true; sleep 0 && echo X_test.pkl')",
    "a program that waits": "import subprocess\nsubprocess.Popen('sleep 0.1', shell=True).wait()",
    "an empty Python": """
import subprocess, sys
code = "import time; time.sleep(0); print('X_test.pkl is missing')"
subprocess.run([sys.executable, "-u", "-c", code])
""",
    "a program put together": "import os\nos.system('tr' + 'ue')\nos.popen('whoami').read()",
    "a spawned program": "import os\nos.spawnlp(os.P_WAIT, 'true', 'true')",
    "another folder": "import os\nprint(os.listdir('/tmp'), os.path.exists('/X_test.pkl'))",
}
HONEST = {
    "a workaround that fails": """
import pandas as pd

test = pd.read_csv("test.csv")
model = pd.read_pickle("model.pkl")
print(model.predict(test[["no_such_column"]]))
""",
    "renamed": "import os\nos.rename('X_test.pkl', 'mine.pkl')",
    "black": """
import pandas as pd

X_test = pd.read_pickle(
    "X_test.pkl",
)
""",
    "black, open": """
import pickle

with open(
    "X_test.pkl",
    "rb",
) as handle:
    X_test = pickle.load(
        handle,
    )
""",
    "caught": """
import pickle, sys
try:
    X_test = pickle.load(open("X_test.pkl", "rb"))
except Exception as error:
    print(f"I cannot go on: {error}", file=sys.stderr)
    sys.exit(1)
""",
    "caught, another error": """
import pandas as pd
try:
    X_test = pd.read_pickle("X_test.pkl")
except OSError as error:
    raise RuntimeError("the test table is not there") from error
""",
    "f-string": "import pandas as pd\nfor n in ('X_test',):\n    pd.read_pickle(f'{n}.pkl')",
    "f-string of parts": "a, b = 'X', 'test'\nopen(f'{a}_{b}.{chr(112)}kl')",
    "by code": "part = 'te' + 'st'\nopen('X_' + part + '.' + 'lkp'[::-1])",
    "pathlib": "from pathlib import Path\nprint((Path.cwd() / 'X_test').with_suffix('.pkl').read_bytes())",
    "Path.exists": "from pathlib import Path\nif not Path('X_test.pkl').exists():\n    print('missing')",
    "Path.is_file": "from pathlib import Path\nassert Path('X_test.pkl').is_file(), 'it is missing'",
    "os.path": "import os\nneeded = 'X_test.pkl'\nprint(needed, os.path.isfile(needed))",
    "os.access": "import os\nprint(os.access('X_test.pkl', os.R_OK))",
    "os.stat": "import os\nprint(os.stat('X_test.pkl').st_size)",
    "helper": """
import pickle

def fetch(stem, read=pickle.load, opener=open):
    with opener(stem + ".pkl", "rb") as handle:
        return read(handle)

tables = {stem: fetch(stem) for stem in ("X_test",)}
""",
    "other loaders": "import joblib\nload = getattr(joblib, 'lo' + 'ad')\nload('./X_test.pkl')",
    "numpy": "import numpy as np\nnp.load('X_test.pkl', allow_pickle=True)",
    "low level": "import os\nos.open(b'X_test.pkl', os.O_RDONLY)",
    "ctypes": "import ctypes\nfd = ctypes.CDLL(None).open(b'X_test.pkl', 0)\nassert fd >= 0, 'missing'",
    "ctypes, by a helper": """
import importlib
call = getattr(importlib.import_module("cty" + "pes").CDLL(None), "fopen")
if not call(b"X_test.pkl", b"rb"):
    raise RuntimeError("there is none")
""",
    "by another program": "import subprocess\nsubprocess.run(['cat', 'X_test.pkl'])",
    "by a shell": "import os\nos.system('test -f X_test.pkl || echo it is missing')",
    "by another Python": """
import subprocess, sys
subprocess.run([sys.executable, "-c", "open('X_test.pkl')"])
""",
    "by a file of its own": """
import subprocess, sys
open("job.py", "w").write("open('X_test.pkl')")
subprocess.run([sys.executable, "job.py"])
""",
    "by a module of its own": """
import os, sys
open("job.py", "w").write("open('X_test.pkl')")
os.system(f"{sys.executable} -c 'import job'")
""",
    "by a program of the workspace": """
import os, subprocess
open("true", "w").write("#!/bin/sh\\ncat X_test.pkl")
os.chmod("true", 0o755)
subprocess.run(["./true"])
""",
    "in a fork": """
import os
child = os.fork()
if not child:
    try:
        open('X_test.pkl')
    finally:
        os._exit(1)
os.waitpid(child, 0)
""",
    "killed after it": "import os, signal\ntry:\n    open('X_test.pkl')\nexcept OSError:\n    os._exit(3)",
    "audited": "import sys\nsys.addaudithook(lambda event, args: None)\nopen('X_test.pkl')",
}


LISTS = {
    "listdir": "import os\nprint('here:', sorted(os.listdir()), 'X_test.pkl is missing')",
    "listdir of the path": "import os\nprint(os.listdir(os.getcwd()))",
    "scandir": "import os\nprint([entry.name for entry in os.scandir('.')])",
    "walk": "import os\nfor _, _, files in os.walk('.'):\n    print(files)",
    "glob": "import glob\nprint(glob.glob('*.pkl'))",
    "Path.glob": "from pathlib import Path\nprint([p.name for p in Path().glob('X_*')])",
    "ls": "import subprocess\nprint(subprocess.run('ls', capture_output=True))",
    "ls in a shell": "import os\nos.system('ls -la')",
    "iterdir": "from pathlib import Path\nprint(list(Path('.').iterdir()))",
}


@pytest.fixture(scope="module")
def episode() -> Iterator[Episode]:
    episode = Episode(read_card(REGISTRY / "dsbench"), sandbox="local", prompts="compact")
    yield episode
    episode.close()


def analyst(episode: Episode, code: str, agent: str, fault: str) -> tuple[Verdict, float]:
    """The verdict on an analyst that runs ``code``, and the most that the card's gates allow a model."""
    team = make_team("dsbench", "single", agent=agent, fault=fault)
    episode.reset(seed=3)
    team.reset(episode.task, 3)
    while episode.agent != "analyst_0":
        episode.act(team.act(str(episode.agent), episode.turn, episode.actions))
    episode.act(f"I look.\n```python\n{code}\n```")
    at, path = episode.evidence[-1], episode.card.coach
    assert path is not None
    assert (at.agent.name, at.tool is not None) == ("analyst_0", True)
    spec = read_spec(path, tuple(sorted({each.role for each in episode.card.team})))
    best = {row.name: BEST for row in spec.roles[at.agent.role].criteria}
    verdict = episode.actions[-1].verdict
    while episode.agent is not None:
        episode.act("I stop.")
    return verdict, spec.score(at.agent.role, best, Case(at, episode.card.order))


@pytest.mark.parametrize("name", COASTERS)
def test_who_opens_nothing_is_idle(episode: Episode, name: str) -> None:
    verdict, most = analyst(episode, COASTERS[name], "engineer_0", "forgets_x_test")
    assert verdict.score is not None
    assert verdict.score <= 3, verdict
    assert most <= 3


@pytest.mark.parametrize("name", HONEST)
def test_who_looks_for_what_is_missing_is_excused(episode: Episode, name: str) -> None:
    verdict, most = analyst(episode, HONEST[name], "engineer_0", "forgets_x_test")
    assert (verdict.score, verdict.blame) == (6, "engineer_0"), verdict
    assert most == 10
    assert culprit(episode.actions) == "engineer_0"


@pytest.mark.parametrize("name", LISTS)
def test_who_lists_the_folder_is_idle_unless_its_program_fails_or_uses_a_file(
    episode: Episode, name: str
) -> None:
    """Beside the use of another file, to look around shows what one has to do without."""
    verdict, most = analyst(episode, LISTS[name], "engineer_0", "forgets_x_test")
    assert verdict.score is not None
    assert (verdict.score <= 3, verdict.blame, most) == (True, "analyst_0", 3), verdict
    for end in ("raise SystemExit('X_test.pkl fehlt')", "raise FileNotFoundError('X_test.pkl')", "1 / 0"):
        verdict, most = analyst(episode, f"{LISTS[name]}\n{end}", "engineer_0", "forgets_x_test")
        assert (verdict.score, verdict.blame, most) == (6, "engineer_0", 10), verdict
    for use in ("open('model.pkl', 'rb')", "import pandas\npandas.read_csv('test.csv')"):
        verdict, most = analyst(episode, f"{LISTS[name]}\n{use}", "engineer_0", "forgets_x_test")
        assert (verdict.score, verdict.blame, most) == (6, "engineer_0", 10), verdict


BLUNDERS = {
    "NameError": "table = prepare(1)",
    "NameError in a helper": "def fill():\n    return mean_of(3)\nfill()",
    "ImportError": "from pandas import no_such_function",
    "ModuleNotFoundError": "import no_such_package",
    "SyntaxError": "eval('1 +')",
}
TRIES = {
    "asks": "import os\nif not os.path.exists('X_test.pkl'):\n    print('I make it myself')",
    "opens": "try:\n    open('X_test.pkl')\nexcept OSError as error:\n    print(error)",
    "does without": "import pandas as pd\ntest = pd.read_csv('test.csv')",
}


@pytest.mark.parametrize("blunder", BLUNDERS)
@pytest.mark.parametrize("attempt", TRIES)
def test_a_blunder_in_a_workaround_costs_less_than_the_fault_itself(
    episode: Episode, attempt: str, blunder: str
) -> None:
    code = f"{TRIES[attempt]}\n{BLUNDERS[blunder]}"
    verdict, _ = analyst(episode, code, "engineer_0", "forgets_x_test")
    assert (verdict.score, verdict.blame) == (4, "analyst_0")
    assert culprit(episode.actions) == "engineer_0"
    scores: dict[bool, list[float]] = {True: [], False: []}
    for action in episode.actions:
        scores[action.agent == "engineer_0"].append(action.verdict.score or 0)
    assert min(scores[True]) < min(scores[False])


@pytest.mark.parametrize("code", BLUNDERS.values(), ids=BLUNDERS)
def test_who_blunders_before_it_opens_anything_is_idle_and_still_not_the_culprit(
    episode: Episode, code: str
) -> None:
    verdict, _ = analyst(episode, code, "engineer_0", "forgets_x_test")
    assert (verdict.score, verdict.blame) == (2, "analyst_0")
    assert culprit(episode.actions) == "engineer_0"


@pytest.mark.parametrize("code", ["open('X_test.pkl').close()", "import os\nos.listdir()", "1 / 0"])
def test_to_look_at_sound_inputs_excuses_nobody(episode: Episode, code: str) -> None:
    verdict, _ = analyst(episode, code, "analyst_0", "crash")
    assert verdict.score is not None
    assert (verdict.score <= 2, verdict.blame) == (True, "analyst_0"), verdict


@pytest.mark.parametrize(
    ("code", "score"),
    [
        ("import pickle\ntry:\n    pickle.load(open('model.pkl', 'rb'))[0]\nexcept Exception:\n    1", 6),
        ("import pandas as pd\nmodel = pd.read_pickle(\n    'model.pkl',\n)\nmodel.predict([[0]])", 6),
        ("stem = 'mod' + 'el'\nopen(f'{stem}.pkl', 'rb').read().decode('ascii')", 6),
        ("import os\nprint(os.listdir())", 2),
        ("if False:\n    open('model.pkl')", 2),
    ],
)
def test_only_who_opens_a_file_sees_what_is_wrong_in_it(episode: Episode, code: str, score: float) -> None:
    verdict, _ = analyst(episode, code, "modeler_0", "pickles_y_train")
    assert verdict.score == score, verdict
    assert verdict.blame == ("modeler_0" if score == 6 else "analyst_0")
