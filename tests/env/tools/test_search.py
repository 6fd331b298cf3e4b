"""Search over a folder: the right passages, the same each time, and nothing from outside of the folder."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.errors import OptionError
from mappa_env.tools.base import CallLimits, CallSite
from mappa_env.tools.search import SearchTool

SITE = CallSite("scout_0", 0, 0, CallLimits(), time.monotonic() + 60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("documents")
    (root / "towns").mkdir()
    (root / "towns" / "ostrel.md").write_text("# Ostrel\n\nOstrel lies on the river Sarn.\n")
    (root / "sarn.txt").write_text("The Sarn\nThe Sarn flows into Amber Bay.")
    (root / "rows.jsonl").write_text(
        '{"id": "k", "title": "Keld", "text": "A mountain of snow."}\n\n{"contents": "Nobody has a title."}\n'
    )
    (root / "long.md").write_text(
        "# Long\n\n" + "\n\n".join(f"paragraph {i} " + "filler " * 30 for i in range(20))
    )
    (root / "code.py").write_text("Sarn Sarn Sarn")
    (root / "secret.md").symlink_to("/etc/hostname")
    return root


def found(tool: SearchTool, query: str) -> list[str]:
    documents: list[str] = tool.call("", {"query": query}, SITE).facts["documents"]
    return documents


def test_the_best_document_comes_first(folder: Path) -> None:
    tool = SearchTool(str(folder))
    assert found(tool, "Which river does Ostrel lie on?")[0] == "towns/ostrel.md"
    assert found(tool, "AMBER bay")[0] == "sarn.txt"
    assert found(tool, "snow") == ["rows.jsonl#k"]
    assert found(tool, "nobody") == ["rows.jsonl#3"]
    answer = tool.call("", {"query": "amber"}, SITE)
    assert answer.text == "[1] The Sarn\nThe Sarn flows into Amber Bay."
    assert tool.call("", {"query": "zzz"}, SITE).text == "No document matches."


def test_long_documents_are_cut_into_passages(folder: Path) -> None:
    tool = SearchTool(str(folder), top=1, passage_words=64)
    text = tool.call("", {"query": "paragraph 17"}, SITE).text
    assert "paragraph 17" in text
    assert len(text.split()) < 90


def test_links_and_other_files_are_left_out(folder: Path) -> None:
    tool = SearchTool(str(folder), top=100)
    everything = {each.document for each in tool._index._passages}
    assert everything == {"long.md", "rows.jsonl#k", "rows.jsonl#3", "sarn.txt", "towns/ostrel.md"}


def test_equal_scores_keep_the_order_of_paths(tmp_path: Path) -> None:
    for name in "cab":
        (tmp_path / f"{name}.txt").write_text("Same\nthe same words")
    assert found(SearchTool(str(tmp_path)), "same words") == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.parametrize(
    ("name", "content", "query", "text"),
    [
        ("a.md", "\ufeff# Amber Bay\n\nIts island.", "island", "[1] Amber Bay\nIts island."),
        ("A.MD", "Amber Bay\r\nIts island.", "island", "[1] Amber Bay\nIts island."),
        (
            "a.jsonl",
            '\ufeff{"id": null, "title": null, "text": "Its island."}',
            "island",
            "[1] \nIts island.",
        ),
        ("a.md", "塔\n東京タワーは東京にある", "東京のどこ", "[1] 塔\n東京タワーは東京にある"),
        ("a.md", "Bar\ncafe\u0301", "caf\u00e9", "[1] Bar\ncafe\u0301"),
        ("a.md", "Bar\n\ufb01sh", "FISH", "[1] Bar\n\ufb01sh"),
    ],
)
def test_documents_as_people_have_them(
    tmp_path: Path, name: str, content: str, query: str, text: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    answer = SearchTool(str(tmp_path)).call("", {"query": query}, SITE)
    assert answer.text == text
    assert answer.facts["documents"] == [f"{name}#1" if "jsonl" in name else name]


@given(st.text())
def test_any_query_has_an_answer_and_always_the_same(folder: Path, query: str) -> None:
    tool = SearchTool(str(folder))
    assert tool.call("", {"query": query}, SITE) == tool.call("", {"query": query}, SITE)


def test_a_folder_that_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="does not exist"):
        SearchTool(str(tmp_path / "none"))
    with pytest.raises(OptionError, match=r"needs \.txt, \.md, \.jsonl"):
        SearchTool(str(tmp_path))
    (tmp_path / "a.jsonl").write_text('{"title": "no text"}')
    with pytest.raises(OptionError, match=r"a\.jsonl line 1 must be an object"):
        SearchTool(str(tmp_path))
    with pytest.raises(OptionError, match="top=0"):
        SearchTool(str(tmp_path), top=0)
