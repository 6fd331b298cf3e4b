"""Orders at random, and actions that follow them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from mappa_env.order import Order, read_order
from mappa_env.types import ActionRecord, AgentSpec, Team, ToolResult, Verdict

NAMES = ("pro_0", "con_0", "judge_0", "boss_0")
TEAM = Team((*(AgentSpec(name, name, 1) for name in NAMES), AgentSpec("coder_0", "Coder", 2, ("python",))))
SAYINGS = (
    "decision: accept",
    "Decision: **Accept**.",
    "decision: redo",
    "next: pro_0",
    "next: done",
    "41",
    "42",
    "",
)


def action(
    past: Sequence[ActionRecord], agent: str, text: str, *, last: bool = True, status: Any = None
) -> ActionRecord:
    tool = ToolResult(status, 0, "", "") if status else None
    number = sum(one.agent == agent for one in past)
    return ActionRecord(
        len(past), agent, number, (), text, "", text, None, tool, Verdict("abstain", None), 0.0, False,
        ("math", agent.rsplit("_", 1)[0], number), 0, last,
    )  # fmt: skip


def order_of(*rows: Any, names: Sequence[str]) -> Order:
    return read_order(list(rows), Team(tuple(TEAM[name] for name in names)), "card.yaml")


def agents(least: int, names: Sequence[str] = NAMES) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), min_size=least, max_size=3, unique=True)


conditions = st.one_of(
    st.builds(lambda a, s: {"agent": a, "says": s}, st.sampled_from(NAMES), st.sampled_from(SAYINGS[:1])),
    st.builds(lambda a: {"agree": a}, agents(2)),
    st.just({"agent": "coder_0", "status": "ok"}),
)


def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    steps, times = st.lists(inner, min_size=1, max_size=3), st.integers(1, 3)
    return st.one_of(
        st.builds(lambda s, t: {"repeat": s, "times": t}, steps, times),
        st.builds(lambda s, t, c: {"repeat": s, "times": t, "until": c}, steps, times, conditions),
        st.builds(lambda c, a, b: {"if": c, "then": a, "else": b}, conditions, steps, steps),
        st.builds(lambda c, a: {"if": c, "then": a}, conditions, steps),
    )


def choice(among: list[str], times: int) -> dict[str, Any]:
    return {"choose": "boss_0", "among": among, "times": times}


steps = st.recursive(
    st.one_of(
        st.sampled_from(TEAM.names),
        st.builds(lambda a: {"parallel": a}, agents(2)),
        st.builds(choice, agents(1, NAMES[:3]), st.integers(1, 3)),
    ),
    compound,
    max_leaves=6,
)
