"""How many episodes an evaluation has, and how many are missing: what is not over must not be ranked."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mappa_env.data.store import write
from mappa_env.errors import EvaluationError, UnfinishedEvaluation
from mappa_env.evaluation.episodes import Played
from mappa_env.evaluation.participants import kind_of
from mappa_env.evaluation.plan import Job
from mappa_env.evaluation.sources import check_sources
from mappa_env.json_and_yaml import json_text, read_json

FILE = "planned.json"
_REMEDY = "remove it, and run the evaluation's command again."
_OPTIONS = ("tasks", "limit", "samples", "seed")


def digest_of(task_ids: Iterable[str]) -> str:
    """Eight hexadecimal digits that tell one set of tasks from another."""
    return hashlib.sha256("\n".join(sorted(task_ids)).encode("utf-8", "replace")).hexdigest()[:8]


def expect(folder: Path, jobs: Sequence[Job], sources: Mapping[str, Mapping[str, str]]) -> None:
    """Write down, before they are played, what ``jobs`` the evaluation has in their environments.

    ``sources``: environment -> ``sources_of`` its card. Raises EvaluationError if the folder's evaluation has
    others there: its results would be a mixture. Earlier versions did not write down their sources.
    """
    known = _read(folder)
    for env in dict.fromkeys(job.env for job in jobs):
        mine = [job for job in jobs if job.env == env]
        asked = {
            "episodes": len(mine),
            "tasks": digest_of({job.task_id for job in mine}),
            "sources": dict(sources[env]),
        }
        before = known.setdefault(env, asked)
        if "sources" in before:  # else nobody knows on which card it was begun
            check_sources(f"{folder}: {env}", before["sources"], sources[env])
        if any(before[name] != asked[name] for name in ("episodes", "tasks")):
            raise EvaluationError(
                f"{folder} holds an evaluation of {before['episodes']} episodes of {env}, and now there "
                f"are {len(mine)}, or other tasks: the task files have changed, so choose another --out."
            )
    write(folder / FILE, json_text(known) + "\n")


def sources_in(folder: Path) -> dict[str, dict[str, str]]:
    """Environment -> its sources; empty ones in folders of versions that did not write them down."""
    return {env: dict(each.get("sources", {})) for env, each in _read(folder).items()}


def check_finished(folder: Path, settings: Mapping[str, Any], played: Sequence[Played], over: bool) -> None:
    """Raises EvaluationError, with the command that goes on, for an evaluation with episodes missing.

    Also for one whose episodes are not those that were planned. ``over``: whether it has figures, which are
    written at the end.
    """
    found, known = Counter(each.env for each in played), _read(folder)
    envs = settings.get("envs") or list(found)
    for env in found:
        if env not in envs:
            raise EvaluationError(
                f"{folder} has episodes of {env}, which its settings do not name: remove them."
            )
    for env in envs:
        if env in known:
            total = known[env]["episodes"]
        elif over and found[env]:
            continue
        else:
            total = 0
        if not total or found[env] < total:
            missing = f"{total - found[env]} of {total} episodes" if total else "episodes"
            raise UnfinishedEvaluation(
                f"{folder} is not finished: {missing} of {env} are missing. Resume it with: "
                f"{command(folder, settings)}"
            )
        if found[env] > total:
            raise EvaluationError(
                f"{folder} has {found[env]} episodes of {env}, and was to have {total}: it is no longer one "
                "evaluation, so remove the episodes that do not belong to it."
            )
        if env in known:
            _check_tasks(folder, env, known[env]["tasks"], played)


def _check_tasks(folder: Path, env: str, planned: str, played: Sequence[Played]) -> None:
    there = digest_of({each.task_id for each in played if each.env == env})
    if there != planned:
        raise EvaluationError(
            f"{folder / FILE} says that the tasks of {env} have the digest {planned}, but those of the "
            f"episodes have {there}: one of the files was changed. Restore it, or evaluate again with "
            "another --out."
        )


def command(folder: Path, settings: Mapping[str, Any]) -> str:
    """What resumes the evaluation of ``settings`` in ``folder``, for a shell."""
    models: Mapping[str, Mapping[str, Any]] = settings["models"]
    if not all(kind_of(str(spec["name"])) for spec in models.values()):
        return "the same 'mappa-rl eval' command as before"
    words = ["mappa-env", "eval", *settings.get("envs", ())]
    for agent, spec in models.items():
        text = str(spec["name"]) if set(spec) == {"name"} else json.dumps(spec)
        words += ["--model", text] if agent == "*" else ["--agent", f"{agent}={text}"]
    options = settings.get("options") or {}
    for name, value in [(name, settings.get(name)) for name in _OPTIONS] + list(options.items()):
        if value is not None:
            words += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
    return shlex.join([*words, "--out", str(folder)])


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    """Environment -> its ``episodes``, digest of ``tasks``, and ``sources``. Raises EvaluationError."""
    path = folder / FILE
    if not path.exists():  # of a version that did not write it, or nothing is known yet
        return {}
    try:
        found = read_json(path.read_bytes())
        whole = all(
            type(each["episodes"]) is int
            and each["episodes"] > 0
            and type(each["tasks"]) is str
            and type(each.get("sources", {})) is dict
            for each in found.values()
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise EvaluationError(f"{path} cannot be read ({error}): {_REMEDY}") from None
    if not whole:
        raise EvaluationError(
            f"{path} does not say how many episodes, and which tasks, each environment has: {_REMEDY}"
        )
    return dict(found)
