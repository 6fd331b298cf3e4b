"""Renders actions as text for humans: prompt, action, tool run and verdict."""

from __future__ import annotations

import json
import sys

from mappa_env.episode.episode import Episode
from mappa_env.types import (
    ActionRecord,
    Criterion,
    FileChange,
    Outcome,
    ToolCall,
    ToolResult,
    Verdict,
)

PROMPT_LIMIT = 1200
"""Characters of a prompt that are shown."""
_OUTPUT_LIMIT = 2000
FULL_HELP = "show long prompts and outputs whole, not folded"
"""Of the option that several commands have."""


def render(episode: Episode, record: ActionRecord | None) -> str:
    """Render the action ``record``; None: the episode has just begun, so render only the prompt."""
    if record is None:
        head = f"== {episode.card.id} · {episode.task.id} · {episode.agent} is next"
        return "\n".join([head, *_prompt(episode.prompt())])
    head = f"== step {record.step} · {record.agent} · turn {record.turn}"
    return "\n".join([head, *_prompt(record.messages[-1]["content"]), render_action(episode, record)])


def render_prompt(episode: Episode, full: bool = False) -> str:
    """The heading of the next action, and the last message to its agent; ``full``: not folded."""
    head = f"== step {len(episode.actions)} · {episode.agent} · turn {episode.turn}"
    return "\n".join([head, *_prompt(episode.messages()[-1]["content"], full)])


def render_action(episode: Episode, record: ActionRecord, full: bool = False) -> str:
    """An action without its prompt: text, run, verdict and, if it closed the episode, the outcome."""
    lines = [render_record(record, _reward(episode, record), full)]
    outcome = episode.outcome
    if episode.over and outcome is not None and record.step == len(episode.actions) - 1:
        lines.append(render_outcome(outcome))
        if not episode.immediate:
            lines += _section("rewards", _final_rewards(episode))
    return "\n".join(lines)


def render_record(record: ActionRecord, reward: str, full: bool = False) -> str:
    """An action without its prompt; ``reward`` as a text. ``full``: outputs are not cut."""
    return "\n".join([render_deed(record, full), *_section("verdict", _verdict(record.verdict, reward))])


def render_deed(record: ActionRecord, full: bool = False) -> str:
    """What an agent wrote, and what came of it; without its prompt and the coach's verdict."""
    limit = 0 if full else _OUTPUT_LIMIT
    lines = _section("action", record.action)
    if record.tool is not None:
        lines += _tool(record.tool, limit)
    for call in record.calls:
        lines += _call(call, limit)
    return "\n".join(lines)


def render_outcome(outcome: Outcome) -> str:
    """How an episode ended."""
    metrics = "  ".join(f"{name}={value:.4g}" for name, value in outcome.metrics.items())
    word = "success" if outcome.success else "no success"
    text = f"{word}, score {outcome.score:.3f} ({outcome.status}): {outcome.reason}\n{metrics}"
    return "\n".join(_section("outcome", text))


def render_section(title: str, text: str, limit: int = 0) -> str:
    """A section of an action, cut in its middle at ``limit`` characters; 0: whole."""
    return "\n".join(_section(title, _middle_cut(text, limit)))


def show(episode: Episode, record: ActionRecord | None) -> None:
    """Print ``render``. Agents' control characters never reach the terminal."""
    sys.stdout.write(encodable(printable(render(episode, record) + "\n\n")))
    sys.stdout.flush()


def encodable(text: str) -> str:
    """``text`` with ``?`` for every character that standard output cannot encode."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def printable(text: str) -> str:
    """``text`` with ``?`` for control characters, which could control a terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() else "?" for c in text)


def _tool(tool: ToolResult, limit: int) -> list[str]:
    head = f"{tool.status}, exit {tool.exit_code}, {tool.wall_s:.2f} s, isolation {tool.isolation}"
    lines = _section("ran", head)
    for name, text in (("stdout", tool.stdout), ("stderr", tool.stderr)):
        if text.strip():
            lines += _section(name, _tail(text.rstrip(), limit))
    if tool.files:
        lines += _section("files", "\n".join(map(_change, tool.files)))
    return lines


def _call(call: ToolCall, limit: int) -> list[str]:
    arguments = _middle_cut(json.dumps(dict(call.arguments), ensure_ascii=False), limit)
    head = f"{call.status}, {call.seconds:.2f} s, {arguments}"
    text = _middle_cut(call.text.rstrip(), limit)
    whose = "" if call.attester == "host" else f" ({call.attester}'s word)"
    return _section(f"called {call.tool or 'nothing'}{whose}", "\n".join(filter(None, (head, text))))


def _change(change: FileChange) -> str:
    if change.kind == "dir":
        return f"{change.op:9} {change.path}/"
    return f"{change.op:9} {change.path}  {change.size} B"


def _reward(episode: Episode, record: ActionRecord) -> str:
    if record.reward_valid:
        return f"{record.reward:.2f}"
    return "none" if episode.over or episode.immediate else "pending"


def _final_rewards(episode: Episode) -> str:
    return "\n".join(
        f"{_reward(episode, action):>5}  step {action.step} · {action.agent}" for action in episode.actions
    )


def _verdict(verdict: Verdict, reward: str) -> str:
    score = "no score" if verdict.score is None else f"{verdict.score:.1f}/10"
    lines = [f"{verdict.coach}: {verdict.status}, {score}; reward {reward}"]
    if verdict.blame:
        lines.append(f"blames {verdict.blame}")
    lines += [
        f"{c.score * 100:4.0f}% of {c.weight:.2f}  {c.name}: {_grounds(c)}".rstrip() for c in verdict.criteria
    ]
    return "\n".join([*lines, verdict.reasoning] if verdict.reasoning else lines)


def _grounds(criterion: Criterion) -> str:
    """A rule's reason, or a model's quote from the evidence."""
    quote = " ".join(criterion.quote.split())
    return " ".join(part for part in (criterion.reason, f'"{quote}"' if quote else "") if part)


def _prompt(text: str, full: bool = False) -> list[str]:
    return _section("prompt", _middle_cut(text, 0 if full else PROMPT_LIMIT))


def one_line(text: str) -> str:
    """``text`` as a heading needs it: a line break of an agent must not begin a line of its own."""
    return " ".join(text.split())


def _section(title: str, text: str) -> list[str]:
    return [f"-- {one_line(title)}", *("   " + line for line in text.strip("\n").split("\n"))]


def _middle_cut(text: str, limit: int) -> str:
    """Keep head and tail: a prompt begins with the task and ends with the instruction. ``limit`` 0: whole."""
    if not limit or len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters]\n{text[-half:]}"


def _tail(text: str, limit: int) -> str:
    return (
        text if not limit or len(text) <= limit else f"[... {len(text) - limit} characters]\n{text[-limit:]}"
    )
