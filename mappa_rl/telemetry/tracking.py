"""Metrics to Weights & Biases and episodes to Weave: optional packages, whose failure never ends a run.

Keys are read by the packages themselves (WANDB_API_KEY, netrc); nothing here takes or shows one. With
WANDB_MODE=offline W&B writes into the run's folder alone, for `wandb sync` later; Weave has no such mode.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import netrc
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from mappa_env.types import Trajectory
from mappa_rl.atomic import write_text
from mappa_rl.errors import RunError

WANDB_ID = "wandb-id.json"
OFFLINE = ("offline", "disabled", "dryrun")


class Guarded:
    """Calls that may fail: the first failure is reported, and later calls are skipped."""

    def __init__(self, name: str, note: Callable[[str], None]) -> None:
        self._name, self._note = name, note
        self.broken = False

    def __call__(self, act: Callable[[], Any]) -> Any:
        """Return ``act()``; None once a call has failed."""
        if self.broken:
            return None
        try:
            return act()
        except Exception as error:  # noqa: BLE001  (whatever a network client raises)
            self.broken = True
            self._note(
                f"{self._name} failed and receives nothing more; the run continues, and {METRICS_STAY}. "
                f"{type(error).__name__}: {_without_key(str(error))[:300]}"
            )
            return None


METRICS_STAY = "metrics.jsonl has every number"


class Wandb:
    """One W&B run per run folder; resumed by the id that is kept in the folder."""

    def __init__(
        self, project: str, out: Path, config: Mapping[str, Any], note: Callable[[str], None]
    ) -> None:
        """Raises RunError if the package or a key is missing; a network failure is only reported."""
        wandb = _package("wandb", "run.wandb=''")
        for problem in missing_key("wandb"):
            raise RunError(problem)
        self._guard = Guarded("W&B", note)
        self._run: Any = self._guard(
            lambda: wandb.init(
                project=project,
                id=_run_id(out),
                name=out.name,
                dir=str(out),
                config=dict(config),
                resume="allow",
                save_code=False,
                settings=wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True),
            )
        )
        self._newest = int(getattr(self._run, "step", 0) or 0)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log one step's numbers, unless W&B already has the step (after a resume)."""
        if step >= self._newest:
            self._guard(lambda: self._run.log(dict(values), step=step))

    def close(self) -> None:
        """Finish the W&B run."""
        self._guard(lambda: self._run.finish())


class Weave:
    """Every episode as a trace, with a call per action: prompt, text, tool result, verdict and reward."""

    def __init__(self, project: str, note: Callable[[str], None]) -> None:
        weave = _package("weave", "run.weave=''")
        for problem in missing_key("weave"):
            raise RunError(problem)
        self._guard = Guarded("Weave", note)
        self._weave = weave
        self._client: Any = self._guard(lambda: weave.init(project))

    def episodes(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Send one step's episodes."""
        for trajectory in trajectories:
            self._guard(lambda one=trajectory: self._episode(step, one))  # type: ignore[misc]

    def close(self) -> None:
        """Finish the Weave client."""
        self._guard(lambda: self._weave.finish())

    def _episode(self, step: int, trajectory: Trajectory) -> None:
        outcome = trajectory.outcome
        asked = {"env": trajectory.env_id, "task": trajectory.task.id, "seed": trajectory.seed, "step": step}
        parent = self._client.create_call("episode", asked, use_stack=False)
        for action in trajectory.actions:
            call = self._client.create_call(
                action.agent, {"messages": list(action.messages)}, parent, use_stack=False
            )
            tool = None if action.tool is None else action.tool.status
            verdict = {"status": action.verdict.status, "score": action.verdict.score}
            self._client.finish_call(
                call,
                {"action": action.action, "tool": tool, "verdict": verdict, "reward": action.reward},
            )
        end = {} if outcome is None else {"score": outcome.score, "success": outcome.success}
        self._client.finish_call(parent, end)


def missing_key(package: Literal["wandb", "weave"]) -> Iterator[str]:
    """Yield a message if ``package`` would have to ask for a key. Checks only whether a key exists."""
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    offline = os.environ.get("WANDB_MODE") in OFFLINE
    if os.environ.get("WANDB_API_KEY") or (offline and package == "wandb"):
        return
    try:
        known = netrc.netrc(os.environ.get("NETRC")).hosts
    except (OSError, netrc.NetrcParseError):
        known = {}
    if host in known:
        return
    name, without = {"wandb": ("W&B", "WANDB_MODE=offline"), "weave": ("Weave", "run.weave=''")}[package]
    yield f"{name} has no key for {host}: set WANDB_API_KEY, or run `wandb login`; {without} needs none"


def _package(name: str, without: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise RunError(f"the package {name} is not installed: `pip install {name}`, or set {without}.")
    return importlib.import_module(name)


def _run_id(out: Path) -> str:
    path = out / WANDB_ID
    if not path.is_file():
        write_text(path, json.dumps({"id": secrets.token_hex(4)}))
    found: str = json.loads(path.read_text(encoding="utf-8"))["id"]
    return found


def _without_key(text: str) -> str:
    key = os.environ.get("WANDB_API_KEY")
    return text.replace(key, "***") if key else text
