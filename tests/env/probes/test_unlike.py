"""Files that are not what their names say are found without running them, whatever they hold."""

from __future__ import annotations

import pytest

from mappa_env.probes.unlike import unlike
from mappa_env.sandbox import make_sandbox
from mappa_env.types import FileChange

ALIKE = {
    "a.py": b"x = 1\n",
    "empty.py": b"",
    "warns.py": b"x = '\\d' if 1 is 1 else 2\n",
    "latin.py": b"# -*- coding: latin-1 -*-\nx = '\xe4'\n",
    "runs.py": b"raise SystemExit(3)",
    "deep.py": b"1" + b"+1" * 30000,
    "large.py": b"(" * 2**17,
    "a.json": b'{"a": [1, NaN]}',
    "mark.json": b"\xef\xbb\xbf{}",
    "lines.json": b'{"a": 1}\n{"a": 2}\r\n\n',
    "deep.json": b"[" * 60000,
    "a.txt": b"(",
    "py": b"(",
}
UNLIKE = {
    "open.py": b"(" * 300,
    "zeros.py": bytes(50),
    "coding.py": b"# -*- coding: none_such -*-\n",
    "folder/b.py": b"def (",
    "b.json": b"?" * 50,
    "blank.json": b"\n\n\n",
    "cut.json": b'{"a": 1}\n{"a":',
    "code.json": b"\xff\xfe\x00",
}


@pytest.mark.filterwarnings("error")
def test_only_what_no_reader_takes_is_unlike_its_name() -> None:
    with make_sandbox("process").open_workspace() as workspace:
        for path, content in {**ALIKE, **UNLIKE}.items():
            workspace.put(path, content)
            size = len(content)
            workspace.present[path] = FileChange(path, "created", size, "", "file", agent="engineer_0")
        workspace.put("given.json", b"?")  # the task's own
        assert unlike(workspace) == sorted(UNLIKE)


@pytest.mark.parametrize("count", [49, 200])
def test_the_number_of_files_is_bounded(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    monkeypatch.setattr("mappa_env.probes.unlike._PARSERS", {".json": asked.append})
    with make_sandbox("process").open_workspace() as workspace:
        for number in range(count):
            path = f"{number}.json"
            workspace.put(path, b"{}")
            workspace.present[path] = FileChange(path, "created", 2, "", "file", agent="engineer_0")
        assert unlike(workspace) == []
    assert len(asked) == min(count, 50)
