"""An action as text for people: the prompt's end, what was written, what it did, what the coach said."""

from __future__ import annotations

import sys

from mappa_env.episode import Episode
from mappa_env.types import ActionRecord, ToolResult, Verdict

_PROMPT_TAIL = 1200
_OUTPUT_TAIL = 2000


def render(episode: Episode, record: ActionRecord | None) -> str:
    """``record`` is the last action; None: the episode has just begun and only the prompt is shown."""
    if record is None:
        head = f"== {episode.card.id} · {episode.task.id} · {episode.agent} is next"
        return "\n".join([head, *_section("prompt", _tail(episode.prompt(), _PROMPT_TAIL))])
    lines = [f"== step {record.step} · {record.agent} · turn {record.turn}"]
    lines += _section("prompt", _tail(record.messages[-1]["content"], _PROMPT_TAIL))
    lines += _section("action", record.action)
    if record.tool is not None:
        lines += _tool(record.tool)
    lines += _section("verdict", _verdict(record.verdict, record.reward, record.reward_valid))
    outcome = episode.outcome
    if episode.over and outcome is not None:
        metrics = "  ".join(f"{name}={value:.4g}" for name, value in outcome.metrics.items())
        word = "success" if outcome.success else "no success"
        lines += _section(
            "outcome", f"{word}, score {outcome.score:.3f} ({outcome.status}): {outcome.reason}\n{metrics}"
        )
    return "\n".join(lines)


def show(episode: Episode, record: ActionRecord | None) -> None:
    """Print ``render``. Control characters of agents never reach the terminal."""
    text = render(episode, record) + "\n\n"
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(printable(text).encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def printable(text: str) -> str:
    """``text`` without what could steer a terminal: control characters become ``?``."""
    return "".join(c if c in "\n\t" or c.isprintable() else "?" for c in text)


def _tool(tool: ToolResult) -> list[str]:
    head = f"{tool.status}, exit {tool.exit_code}, {tool.wall_s:.2f} s, isolation {tool.isolation}"
    lines = _section("ran", head)
    for name, text in (("stdout", tool.stdout), ("stderr", tool.stderr)):
        if text.strip():
            lines += _section(name, _tail(text.rstrip(), _OUTPUT_TAIL))
    if tool.files:
        lines += _section("files", "\n".join(f"{f.op:9} {f.path}  {f.size} B" for f in tool.files))
    return lines


def _verdict(verdict: Verdict, reward: float, valid: bool) -> str:
    score = "no score" if verdict.score is None else f"{verdict.score:.1f}/10"
    lines = [f"{verdict.coach}: {verdict.status}, {score}; reward {f'{reward:.2f}' if valid else 'none'}"]
    if verdict.blame:
        lines.append(f"blames {verdict.blame}")
    lines += [f"{c.score * 100:4.0f}% of {c.weight:.2f}  {c.name}: {c.reason}" for c in verdict.criteria]
    return "\n".join([*lines, verdict.reasoning] if verdict.reasoning else lines)


def _section(title: str, text: str) -> list[str]:
    return [f"-- {title}", *("   " + line for line in text.strip("\n").split("\n"))]


def _tail(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"[... {len(text) - limit} characters]\n{text[-limit:]}"
