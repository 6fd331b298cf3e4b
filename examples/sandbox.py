"""gym.make("mappa/MathChat-v0", sandbox={"name": "examples/sandbox.py:Logged", "path": "code.log"})"""

from pathlib import Path

from mappa_env.sandbox import Limits, Result
from mappa_env.sandbox.process import ProcessSandbox
from mappa_env.workspace.workspace import Workspace


class Logged(ProcessSandbox):
    """Runs code as the sandbox ``process`` does, without protection, and appends it to a log."""

    name = "logged"

    def __init__(self, path: str = "code.log") -> None:
        super().__init__()
        self.path = Path(path)

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        result = super().run(workspace, code, limits, seed=seed)
        with self.path.open("a", encoding="utf-8") as log:
            log.write(f"# {result.status}\n{code}\n")
        return result
