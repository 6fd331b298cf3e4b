"""A model cannot tell whether the probe or the next agent loads it, as far as the process shows it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

from mappa_env import team_env
from mappa_env.probes.exports import Exports
from mappa_env.probes.facts import STABLE
from mappa_env.probes.opening import MODEL, TABLES
from mappa_env.probes.program import Question, Wording, load_table, two_wordings
from mappa_env.probes.submitting import Submission, submitting
from mappa_env.sandbox import make_sandbox
from mappa_env.sandbox.base import Limits
from mappa_env.scripted import make_team
from probing import SEED, look, site_of, workspace_of

X = pd.DataFrame(np.random.default_rng(0).uniform(size=(40, 3)), columns=list("abc"))
Y = pd.Series((X.a > 0.5).astype(int), name="t")

VIEW = """
import gc, hashlib, os, resource, stat, sys, types
def read(path):
    try:
        return open(path).read()
    except OSError as error:
        return type(error).__name__
def kind(fd):
    try:
        return stat.S_IFMT(os.fstat(fd).st_mode)
    except OSError:
        return None
frames, values, frame = [], [], sys._getframe()
while frame is not None:
    if "site-packages" not in frame.f_code.co_filename and frame.f_code.co_filename != "<string>":
        frames.append((frame.f_code.co_filename.rsplit("/", 1)[-1], frame.f_code.co_name))
        if frame.f_globals.get("__name__") == "__main__":
            values += sorted({type(value).__name__ for value in frame.f_locals.values()})
    frame = frame.f_back
told = ("Uid", "Gid", "Cap", "Sec", "NoNew", "Threads", "Groups")
status = [line for line in read("/proc/self/status").splitlines() if line.startswith(told)]
main = sys.modules["__main__"].__dict__
view = {
    "frames": frames, "values": [name for name in values if name not in ("type", "str")],
    "functions": sorted({str(each.__module__) for each in gc.get_objects()
                        if isinstance(each, types.FunctionType) and str(each.__module__) not in sys.modules}),
    "argv": (sys.argv, sys.orig_argv), "path": sys.path, "environment": sorted(os.environ.items()),
    "modules": sorted(set(sys.modules)),
    "main": sorted(name for name in main if name.startswith("__")),
    "process": (status, read("/proc/self/comm"), read("/proc/self/cmdline"), read("/proc/self/limits")),
    "limits": [resource.getrlimit(each) for each in range(resource.RLIMIT_NOFILE + 3)],
    "descriptors": [kind(fd) for fd in range(32)],
    "folder": sorted((name, os.stat(name).st_size, os.stat(name).st_mode) for name in os.listdir(".")),
    "scratch": [os.listdir(os.environ[name]) for name in ("TMPDIR",) if name in os.environ],
    "random": (__import__("random").random(), float(__import__("numpy").random.rand())),
    "traces": (str(sys.gettrace()), str(sys.getprofile()), sys.flags, sys.getrecursionlimit()),
}
digest = " ".join(k + "=" + hashlib.sha256(repr(v).encode()).hexdigest()[:8] for k, v in view.items())
raise RuntimeError(digest)
"""
AGENT = """
import pickle
import joblib
import numpy as np
import pandas as pd
X = joblib.load('X_test.pkl')
with open('model.pkl', 'rb') as f:
    model = pickle.load(f)
"""
TELLS = {
    "a function of the probe calls it": "'export' in names or '_load_model' in names or '<lambda>' in names",
    "a mark lies in its frames": "any('mark' in frame.f_locals for frame in frames)",
    "the program speaks of it": "'exporter' in source or 'mark' in source or 'mappa' in source",
    "a module of it": "any(str(getattr(each, '__module__', '')) in ('exporter', 'mappa_env') "
    "for each in gc.get_objects() if callable(each))",
    "its limits": "resource.getrlimit(resource.RLIMIT_FSIZE)[0] < 2**20 or len(sys.argv) != 1",
    "no program at all": "not source.startswith('import')",
}
TELL = """
import gc, linecache, resource, sys
frames, frame = [], sys._getframe()
while frame is not None:
    frames.append(frame)
    frame = frame.f_back
frames = frames[3:]  # without our own
names = [frame.f_code.co_name for frame in frames]
source = "".join(linecache.getlines("<action>"))
from sklearn.dummy import DummyClassifier
from sklearn.neighbors import KNeighborsClassifier
"""


class Run:
    """Unpickling it executes ``text``, or evaluates it."""

    def __init__(self, text: str, call: Any = exec) -> None:
        self.text, self.call = text, call

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call, (self.text,)


def two_faced(tell: str) -> Run:
    """A model that predicts well where ``tell`` holds, and one constant elsewhere."""
    fits = f".fit({X.to_numpy().tolist()!r}, {Y.tolist()!r})"
    text = f"{TELL}\nmade = (KNeighborsClassifier(1) if {tell} else DummyClassifier()){fits}"
    return Run(f"(lambda scope: (exec({text!r}, scope), scope['made'])[1])({{}})", eval)


def team(folder: Path, model: Any) -> Path:
    table = X.assign(id=range(40), t=Y)
    table.to_csv(folder / "train.csv", index=False)
    table.drop(columns="t").to_csv(folder / "test.csv", index=False)
    for name, value in zip(TABLES, (X, Y, X), strict=True):
        (folder / name).write_bytes(pickle.dumps(value))
    (folder / "model.pkl").write_bytes(pickle.dumps(model))
    return folder


def test_the_probe_looks_like_the_next_agent(tmp_path: Path) -> None:
    """Frames, values, modules, arguments, environment, limits, descriptors, files, random numbers."""
    with workspace_of(team(tmp_path, Run(VIEW))) as workspace:
        agent = make_sandbox("local").run(workspace, AGENT, Limits(wall_s=60, memory_mb=3072), seed=SEED)
    seen = agent.stderr.strip().splitlines()[-1].split()
    question = Question(MODEL, table=load_table(TABLES[2], "pickle", "DataFrame"))
    with workspace_of(tmp_path) as workspace, Exports(site_of(workspace)) as exports:
        said = exports.ask(question, Wording(True, 0, ("X", "model", "p", "t")))
    assert seen[0] == "RuntimeError:"
    assert said.error.split() == seen


@pytest.mark.parametrize("tell", TELLS)
def test_a_two_faced_model_shows_the_probe_the_face_of_the_next_agent(tell: str, tmp_path: Path) -> None:
    model = look(team(tmp_path, two_faced(TELLS[tell])))["model"]
    assert (model["predicts"], model["constant"]) == (True, True)


@pytest.mark.parametrize(
    "tell",
    ["'load' in names", "any(hasattr(v, 'iloc') for f in frames for v in f.f_locals.values())"],
    ids=["loader", "order"],
)
def test_what_a_model_tells_by_the_program_differs_between_two_loads(tell: str, tmp_path: Path) -> None:
    with workspace_of(team(tmp_path, two_faced(tell))) as workspace, Exports(site_of(workspace)) as exports:
        question = Question(MODEL, table=load_table(TABLES[2], "pickle", "DataFrame"))
        names = ("X", "model", "p", "t")
        one, other = (exports.ask(question, Wording(*each, names)) for each in ((True, 0), (False, 2)))
    assert one.agreement(other) < STABLE


def test_the_two_programs_differ_in_order_and_loader() -> None:
    for seed in range(50):
        one, other = two_wordings(seed)
        assert one.table_first != other.table_first
        assert one.loader != other.loader
        assert not set(one.names) & set(other.names)


@pytest.mark.parametrize("place", ["", "{}[1]", "list({}.values())[1]"])
@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_the_second_program_names_nothing_but_what_it_needs(place: str, method: str) -> None:
    table = load_table(TABLES[2], "pickle", "DataFrame", plain=True)
    submission = Submission(MODEL, table, "test.csv", place, method, file="submission.csv")
    for seed in range(20):
        wording = two_wordings(seed)[1]
        lines = [line for part in submitting(submission, wording) for line in part]
        used = set(compile("\n".join(lines), "<action>", "exec").co_names) - set(wording.names)
        reads = {"pandas", "pd", "pickle", "joblib", "open", "f", "load", "read_pickle", "read_csv"}
        assert used <= reads | {"DataFrame", "to_csv", "list", "values", method}


def test_a_model_cannot_tell_the_probe_by_its_seed() -> None:
    """Seeds are derived from public names, so a model could try them out."""
    env = gym.make("mappa/DSBench-v0", coach="rubric")
    _, info = env.reset(seed=3)
    episode = team_env(env).episode
    expert = make_team("dsbench", "expert")
    expert.reset(episode.task, seed=1)
    spy = (
        "import pickle\nclass Run:\n    def __reduce__(self): return exec, ("
        "\"import random; raise RuntimeError('drew %r' % random.random())\",)\n"
        "pickle.dump(Run(), open('model.pkl', 'wb'))"
    )
    while info["agent"] != "analyst_0":
        action = expert.act(info["agent"], episode.turn, episode.actions)
        if info["agent"] == "modeler_0" and "```" in action:
            action = f"```python\n{spy}\n```"
        _, _, _, _, info = env.step(action)
    env.step("```python\nimport random\nprint('drew %r' % random.random())\n```")
    errors = [action.probe["model"].get("error", "") for action in episode.actions if action.probe]
    tool = episode.actions[-1].tool
    assert tool is not None
    assert errors[-1] == f"RuntimeError: {tool.stdout.strip()}"
    env.close()
