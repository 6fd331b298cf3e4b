"""Who may call what, within which limits, with which secrets; tools of one's own."""

from __future__ import annotations

import base64
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.cards import read_card
from mappa_env.episode.episode import Episode
from mappa_env.errors import CardError, OptionError, ToolError
from mappa_env.plugins import TRUST
from mappa_env.tools.secrets import Hidden, Secrets
from mappa_env.types import ActionRecord
from tool_cards import fence, tool_card

VISIBLE = st.characters(min_codepoint=33, max_codepoint=0x24F, categories=["L", "N", "P", "S"])

OWN = """
import time
from mappa_env.errors import ToolUnavailable
from mappa_env.tools import Answer, BaseTool, ToolSpec

class Dice(BaseTool):
    description = "Misbehaves as asked."
    parameters = {"how": {"type": "string"}, "sides": {"type": "integer"}}
    optional = ("sides",)

    def __init__(self, *, word="rolled", env=None):
        self.word, self.env = word, env or {}

    def call(self, name, arguments, site):
        how = arguments["how"]
        if how == "hang":
            time.sleep(1)
        if how == "raise":
            raise ValueError(f"no such die, {self.env['TOKEN'].reveal()}")
        if how == "gone":
            raise ToolUnavailable("the table is missing")
        if how == "long":
            return "0123456789" * 100
        if how == "huge":
            return "x" * 100_000
        if how == "status":
            return Answer("fine", "x")
        if how == "facts":
            return Answer("ok", "x", {"a": {1, 2}})
        if how == "secret facts":
            return Answer("ok", "x", {"a": [self.env["TOKEN"].reveal()]})
        if how == "surrogate":
            return "a\\ud800b"
        if how == "show":
            return Answer("ok", repr(self.env) + self.env["TOKEN"].reveal(), {"seed": site.seed})
        return self.word

class Wrong(BaseTool):
    attester = "nobody"

class Scales(BaseTool):
    def __init__(self, env):
        self.names = ("weigh", "weigh.all", "weigh_" + env["TOKEN"].reveal())

    def specs(self):
        return tuple(ToolSpec(name, "", {"type": "object"}) for name in self.names)

    def call(self, name, arguments, site):
        return f"{name} was called"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "a.md").write_text("# Amber Bay\n\nIts island is Tholm.")
    monkeypatch.setenv(TRUST, str(tmp_path))
    monkeypatch.setenv("DICE_TOKEN", "canary-dice-0815")
    return tmp_path


def tools(**limits: Any) -> dict[str, Any]:
    return {
        "dice": {
            "use": "own.py:Dice",
            "options": {"env": {"TOKEN": "$DICE_TOKEN"}},
            "limits": {"wall_s": 0.3, "result_chars": 100, "result_cap_kb": 16, **limits},
        },
        "search": {"use": "search", "options": {"folder": "documents"}},
    }


def play(
    folder: Path, *texts: str, allowed: tuple[str, ...] = ("dice",), **limits: Any
) -> list[ActionRecord]:
    episode = Episode(tool_card(folder, tools(**limits), allowed), sandbox="null")
    episode.reset(seed=0)
    done = [episode.act(text) for text in texts]
    episode.close()
    return done


def test_a_call_is_carried_out_and_the_agent_sees_its_result(folder: Path) -> None:
    first, second = play(folder, fence("dice", "fair"), "found: Tholm")
    (call,) = first.calls
    assert (call.tool, call.arguments, call.status, call.text) == ("dice", {"how": "fair"}, "ok", "rolled")
    assert call.attester == "host"
    assert first.code is None
    assert not first.last_turn
    assert second.messages[-1]["content"] == "dice ok: rolled"
    assert second.last_turn


@pytest.mark.parametrize(
    ("how", "status", "text"),
    [
        ("raise", "error", "ValueError: no such die, [$DICE_TOKEN]"),
        ("hang", "timeout", "no answer within 0.3 s"),
        ("huge", "output_limit", "the result has more than 16 KiB"),
        ("gone", "unavailable", "the table is missing"),
        ("surrogate", "ok", "a?b"),
    ],
)
def test_whatever_a_tool_does_has_a_status(folder: Path, how: str, status: str, text: str) -> None:
    (call,) = play(folder, fence("dice", how))[0].calls
    assert (call.status, call.text) == (status, text)


@pytest.mark.parametrize(
    ("texts", "score"),
    [
        ([fence("dice", "raise")], 3.0),
        ([fence("search", "Sarn")], 1.0),  # which this agent may not call
        ([fence("dice", "raise"), fence("search", "Sarn")], 3.0),
        ([fence("dice", "raise"), fence("dice", "fair")], 10.0),
        ([fence("dice", "hang")], 10.0),  # whose doing it is, nobody knows
    ],
)
def test_calls_that_the_host_saw_fail_cost_points(folder: Path, texts: list[str], score: float) -> None:
    (record,) = play(folder, "\n".join(texts))
    assert record.verdict.score == score


def test_a_long_result_is_cut_with_a_note(folder: Path) -> None:
    (call,) = play(folder, fence("dice", "long"))[0].calls
    assert call.omitted == 900
    assert call.text == f"{'0123456789' * 5}\n[900 characters left out]\n{'0123456789' * 5}"


def test_a_tool_that_hangs_never_has_a_second_thread(folder: Path) -> None:
    before = threading.active_count()
    calls = [
        call for record in play(folder, fence("dice", "hang"), fence("dice", "hang")) for call in record.calls
    ]
    assert [call.status for call in calls] == ["timeout", "timeout"]
    assert threading.active_count() <= before + 1
    time.sleep(0.8)


def test_a_call_that_hangs_is_not_the_doing_of_a_later_episode(folder: Path) -> None:
    episode, go = Episode(tool_card(folder, tools(), ("dice",)), sandbox="null"), threading.Event()
    held = episode._tools._tools["dice"]
    held.tool.call = lambda *_: go.wait(60) and "rolled"  # type: ignore[method-assign]
    said = []
    for seed in range(2):
        episode.reset(seed=seed)
        said.append([episode.act(fence("dice", "fair")).calls[0].status for _ in range(2)])
    go.set()
    while held.guard._busy.locked():
        time.sleep(0.01)
    said.append([episode.act(fence("dice", "fair")).calls[0].status])
    assert said == [["timeout"] * 2, ["unavailable"] * 2, ["ok"]]
    episode.close()


def test_only_what_the_card_allows_is_carried_out(folder: Path) -> None:
    text = "\n".join((fence("search", "Tholm"), fence("dice", "fair"), fence("python", "print(1)")))
    (record,) = play(folder, text)
    assert [(call.tool, call.status) for call in record.calls] == [("search", "refused"), ("dice", "ok")]
    assert record.calls[0].text == "Refused: you may not use 'search'; your tools are dice."
    assert record.tool is None  # nobody has Python here, so this fence is only text


@pytest.mark.parametrize(
    ("allowed", "offered"), [("lab.weigh", ["lab.weigh"]), ("lab", ["lab.weigh", "lab.weigh.all"])]
)
def test_no_function_slips_in_by_its_name(folder: Path, allowed: str, offered: list[str]) -> None:
    """Neither one whose name continues an allowed one, nor one that spells a secret."""
    own = {"lab": {"use": "own.py:Scales", "options": {"env": {"TOKEN": "$DICE_TOKEN"}}}}
    episode = Episode(tool_card(folder, own, (allowed,)), sandbox="null")
    episode.reset(seed=0)
    assert episode.messages()[0]["content"].split("|")[1:] == offered
    (call,) = episode.act('<tool_call>{"name": "lab.weigh.all"}</tool_call>').calls
    assert call.status == ("ok" if "lab.weigh.all" in offered else "refused")
    assert "canary" not in repr(episode.trajectory)
    episode.close()


def test_an_agent_without_tools_makes_no_calls(folder: Path) -> None:
    card = tool_card(folder, tools(), (), team=[{"name": "scout_0"}, {"name": "scout_1", "tools": ["dice"]}])
    episode = Episode(card, sandbox="null")
    episode.reset(seed=0)
    record = episode.act(fence("dice", "fair"))
    assert record.calls == ()
    assert record.last_turn
    assert episode.agent == "scout_1"


def test_python_and_other_tools_mix_in_one_action(folder: Path) -> None:
    text = f"{fence('search', 'island')}\n{fence('python', 'print(6 * 7)')}"
    episode = Episode(tool_card(folder, tools(), ("python", "search")), sandbox="calculator")
    episode.reset(seed=0)
    record = episode.act(text)
    assert record.code == "print(6 * 7)"
    assert record.tool is not None
    assert record.tool.stdout == "42\n"
    assert [call.facts for call in record.calls] == [{"documents": ["a.md"]}]
    episode.close()


def test_calls_are_counted_per_action_and_per_episode(folder: Path) -> None:
    two = fence("dice", "fair") + "\n" + fence("dice", "fair")
    records = play(folder, two, two, two, per_action=1, per_episode=2)
    assert [[call.status for call in record.calls] for record in records] == [
        ["ok", "refused"],
        ["ok", "refused"],
        ["refused", "refused"],
    ]
    assert "an action may call dice 1 times" in records[0].calls[1].text
    assert "an episode may call dice 2 times" in records[2].calls[0].text


def test_a_fork_counts_and_calls_by_itself(folder: Path) -> None:
    episode = Episode(tool_card(folder, tools(per_episode=2), ("dice",)), sandbox="null")
    episode.reset(seed=0)
    episode.act(fence("dice", "fair"))
    twin = episode.fork()
    for each in (episode, twin):
        assert [each.act(fence("dice", "fair")).calls[0].status for _ in range(2)] == ["ok", "refused"]
    episode.close()
    twin.replay(twin.trajectory)  # its tools are still open
    assert [action.calls[0].status for action in twin.actions] == ["ok", "ok", "refused"]
    twin.close()


def test_a_secret_is_in_no_record_and_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for how in ("show", "raise"):
        (record,) = play(folder, fence("dice", how))
        assert "canary-dice-0815" not in repr(record)
    assert "Hidden('$DICE_TOKEN')" in play(folder, fence("dice", "show"))[0].calls[0].text
    own = {"dice": {"use": "own.py:Dice", "options": {"env": {"TOKEN": "$DICE_TOKEN"}, "word": 1, "nope": 2}}}
    with pytest.raises(OptionError) as caught:
        Episode(tool_card(folder, own, ("dice",)))
    assert "no option 'nope'" in str(caught.value)
    assert "canary" not in str(caught.value)
    monkeypatch.setenv("DICE_TOKEN", "short")
    with pytest.raises(OptionError, match="5 characters"):
        play(folder, "x")
    monkeypatch.delenv("DICE_TOKEN")
    with pytest.raises(OptionError, match="DICE_TOKEN, which is not set: export it"):
        play(folder, "x")


@settings(deadline=None, max_examples=25)
@given(st.text(VISIBLE, min_size=8, max_size=40), st.text())
def test_no_spelling_of_a_secret_survives(secret: str, around: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOME_KEY", secret)
        secrets = Secrets()
        hidden = secrets.resolve("tools.x", {"env": {"A": "Bearer ${SOME_KEY}"}})["env"]["A"]
    assert hidden.reveal() == f"Bearer {secret}"
    assert repr(hidden) == "Hidden('Bearer ${SOME_KEY}')"
    for text in (secret, secret[::-1], secret.encode().hex()):
        assert text not in secrets.clean(f"{around}{text}{around}") or text in around + "[$SOME_KEY]" + around
    coded = base64.b64encode(f"xy{secret}".encode()).decode()
    if len(secret.encode()) >= 12:
        assert secrets.clean(coded) != coded
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(hidden)


def test_hidden_texts_need_a_mapping_of_texts() -> None:
    with pytest.raises(OptionError, match="must map names to texts"):
        Secrets().resolve("tools.x", {"env": ["A=b"]})
    with pytest.raises(OptionError, match=r"write \$NAME"):
        Secrets().resolve("tools.x", {"headers": {"A": "50 $ off"}})
    plain = Secrets().resolve("tools.x", {"env": {"A": "5 $$"}})["env"]["A"]
    assert isinstance(plain, Hidden)
    assert plain.reveal() == "5 $"


def test_the_tools_that_an_agent_names_exist(folder: Path) -> None:
    with pytest.raises(CardError, match=r"'serch' is none of this card's: .*Did you mean 'search'"):
        tool_card(folder, tools(), ("serch",))
    card = tool_card(folder, tools(), ("dice.roll",))
    episode = Episode(card, sandbox="null")
    with pytest.raises(ToolError, match=r"scout_0 name 'dice\.roll', but its server offers python, dice"):
        episode.reset(seed=0)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([], "must be a mapping"),
        ({"Search": {"use": "search"}}, "a tool is named like 'search'"),
        ({"python": {"use": "search"}}, "a tool is named like 'search'"),
        ({"a": {}}, "tools.a needs 'use'"),
        ({"a": {"use": "search", "limit": {}}}, "Did you mean 'limits'"),
        ({"a": {"use": "search"}}, "folder must name a folder"),
        ({"a": {"use": "search", "options": {"folder": "none"}}}, "does not exist in"),
        ({"a": {"use": "mcp", "options": [], "limits": {}}}, ""),
        ({"a": {"use": "mcp", "limits": {"wall_s": 0}}}, "limits.wall_s must be a positive int or float"),
        ({"a": {"use": "mcp", "limits": {"walls": 1}}}, "unknown key 'walls'"),
    ],
)
def test_a_wrong_section_is_refused_with_its_place(folder: Path, row: Any, words: str) -> None:
    if not words:
        tool_card(folder, row, ())
        return
    with pytest.raises(CardError, match=words.replace(".", r"\.")):
        tool_card(folder, row, ())


@pytest.mark.parametrize(
    "row",
    [
        {"use": "mcp", "options": {"command": ["true"]}},
        {"use": "retriever", "options": {"url": "http://169.254.169.254/"}},
        {"use": "own.py:Dice"},
        {"use": "search", "options": {"folder": "documents", "env": {"A": "$HOME"}}},
        {"use": "search", "options": {"folder": ".."}},
        {"use": "search", "options": {"folder": "/etc"}},
        {"use": "search", "options": {"folder": "link"}},
    ],
)
def test_a_card_of_a_stranger_starts_reads_and_connects_to_nothing(
    folder: Path, row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "link").symlink_to("/etc")
    tool_card(folder, {"a": row}, ("a",))  # with permission
    monkeypatch.delenv(TRUST)
    with pytest.raises(CardError, match=TRUST):
        read_card(folder)


def test_an_own_tool_is_checked(folder: Path) -> None:
    with pytest.raises(OptionError, match="attester='nobody' must be one of host, server"):
        Episode(tool_card(folder, {"a": {"use": "own.py:Wrong"}}, ("a",)))
    with pytest.raises(OptionError, match=r"use='other' is not a tool; choose from search, retriever, mcp"):
        Episode(tool_card(folder, {"a": {"use": "other"}}, ("a",)))


def test_an_answer_that_cannot_be_recorded_ends_the_run(folder: Path) -> None:
    with pytest.raises(ToolError, match="status 'fine'"):
        play(folder, fence("dice", "status"))
    with pytest.raises(ToolError, match="facts that JSON cannot hold"):
        play(folder, fence("dice", "facts"))
    assert play(folder, fence("dice", "secret facts"))[0].calls[0].facts == {"a": ["[$DICE_TOKEN]"]}


def test_corrections_are_refused_where_calls_cannot_be_tried(folder: Path) -> None:
    card = tool_card(folder, tools(), ("search",), coach={"rubric": "rubric.yaml"}, scripted="almanac")
    with pytest.raises(OptionError, match="cannot be tried in a copy"):
        Episode(card, coach={"name": "rubric", "corrector": "full"})
