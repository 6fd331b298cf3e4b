"""A grader and a probe that run hidden unit tests on the team's ``solution.py``.

Only the inputs of the tests enter the sandbox; the values that they should give stay on the host. The team's
code runs there, so it may forge every output. But to be right, an output must be the right value.
"""

import json
from collections.abc import Mapping, Sequence

from mappa_env.errors import SandboxError, WorkspaceError
from mappa_env.grading import FreshSandbox
from mappa_env.probes import Site
from mappa_env.types import ActionRecord, Outcome, Task
from mappa_env.workspace.workspace import Workspace

PROGRAM = """
import json
name, inputs = json.load(open("inputs.json"))
with open("outputs.jsonl", "w") as file:
    for arguments in inputs:
        try:
            import solution
            line = json.dumps([getattr(solution, name)(*arguments)], default=list)
        except BaseException:
            line = "[]"
        print(line, file=file, flush=True)
"""


class UnitTests:
    """The score is the share of the hidden tests that pass; only all of them are a success."""

    def grade(
        self, task: Task, actions: Sequence[ActionRecord], workspace: Workspace | None, sandbox: FreshSandbox
    ) -> Outcome:
        source, tests = source_of(workspace), len(task.truth["tests"])
        good = passed(task, source, sandbox)
        status = "no_solution" if source is None else "ok"
        reason = "there is no solution.py" if source is None else f"{good} of {tests} hidden tests pass"
        return Outcome(good / tests, good == tests, status, reason, {"passed": good / tests})


class HowManyPass:
    """Tells the coach, after every action that changed a file, how many hidden tests pass."""

    def look(self, site: Site) -> Mapping[str, object]:
        try:
            good = passed(site.task, source_of(site.workspace), site.fresh)
        except SandboxError:
            return {"probe_failed": "unavailable"}
        return {"passed": good, "tests": len(site.task.truth["tests"])}


def source_of(workspace: Workspace | None) -> bytes | None:
    """``solution.py``; None if it is missing, no regular file or larger than a mebibyte."""
    try:
        return None if workspace is None else workspace.read("solution.py")
    except WorkspaceError:
        return None


def passed(task: Task, source: bytes | None, sandbox: FreshSandbox) -> int:
    """How many hidden tests of ``task`` pass."""
    if source is None:
        return 0
    tests = task.truth["tests"]
    inputs = json.dumps([task.meta["function"], [arguments for arguments, _ in tests]])
    files = {"solution.py": source, "inputs.json": inputs.encode()}
    run = sandbox.run(PROGRAM, files, reads=["outputs.jsonl"])
    lines = run.files.get("outputs.jsonl", b"").splitlines()
    return sum(read(line) == [value] for line, (_, value) in zip(lines, tests, strict=False))


def read(line: bytes) -> object:
    """The JSON value in ``line``; None for anything else that the code may have written."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
