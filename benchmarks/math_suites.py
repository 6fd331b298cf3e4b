"""Finds (gold, answer, expected) triples in other projects' tests, which are parsed and never run."""

from __future__ import annotations

import ast
import fnmatch
import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mappa_env.parsing import last_boxed, split_thinking


class Source(NamedTuple):
    """A repository at a commit, and (pattern of a path, a word in the file) of its tests."""

    repository: str
    commit: str
    places: tuple[tuple[str, str], ...]


SUITES: Mapping[str, Source] = {
    "Math-Verify": Source(
        "huggingface/Math-Verify",
        "5d148cfaaf99214c2e4ffb4bc497ab042c592a7a",
        (("tests/test_*.py", "math_verify"), ("tests/test_*.py", "compare_strings")),
    ),
    "TRL": Source(
        "huggingface/trl",
        "f2cd57710ae345ea6428ae95363267fcf38a3dc8",
        (("tests/test_rewards.py", "trl.rewards"),),
    ),
    "open-r1": Source(
        "huggingface/open-r1",
        "1416fa0cf21595d2083b399a2a0bbddd7f6e9563",
        (("tests/test_rewards.py", "open_r1.rewards"),),
    ),
    "SkyRL": Source(
        "NovaSky-AI/SkyRL",
        "a9564572eb8e91076be43c1bd5e4615e3de17265",
        (("skyrl-gym/tests/test_aime.py", "skyrl_gym"),),
    ),
    "verifiers": Source(
        "PrimeIntellect-ai/verifiers",
        "a60a606ecc4d309247edf9ff92c3eabca362781f",
        (("tests/test_math_rubric.py", "verifiers"),),
    ),
    "Hendrycks MATH": Source(
        "hendrycks/math",
        "985bdc1696e88e8643f081a0ff4719da39f2ae2a",
        (("modeling/math_equivalence_test.py", "is_equiv"),),
    ),
    "rLLM": Source(
        "rllm-org/rllm",
        "9beb6e0f676a46d38858991fd79ac5f8e0b16d4c",
        (("tests/*/test_*.py", "rllm"), ("tests/test_*.py", "rllm"), ("cookbooks/*/test.py", "rllm")),
    ),
    "verl": Source(
        "volcengine/verl",
        "d69068d2a32b985e759049da6f801a039b94b31b",
        (("tests/utils/reward_score/test_*.py", "is_equiv"),),
    ),
}
"""Suite -> where it comes from."""

_MATH = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_WORDS = re.compile(r"[A-Za-z]{2,}[^A-Za-z\\{}]+[A-Za-z]{2,}")
_DEFAULTS = {"strict": True, "precision": 6}


class Case(NamedTuple):
    """An answer, as the content of a box, that is right (``expected``) if it equals one of ``golds``."""

    golds: tuple[str, ...]
    box: str
    expected: bool


@dataclass
class Suite:
    """The cases of a project's tests, and the tests that are none."""

    name: str
    cases: list[Case]
    left_out: list[str]


class _Raw(NamedTuple):
    golds: tuple[str, ...]
    answer: str
    expected: bool | None
    bare: bool = False


def suites_in(folder: Path) -> Iterator[Suite]:
    """All suites, as of their commits, from the clones in ``folder``. Exits if one is missing or empty."""
    for name, source in SUITES.items():
        clone = Clone(folder, source)
        suite = Suite(name, [], [])
        for path in clone.paths():
            words = [word for pattern, word in source.places if fnmatch.fnmatch(path, pattern)]
            if words and any(word in clone.text(path) for word in words):
                _collect(suite, ast.parse(clone.text(path)))
        verdicts: dict[tuple[tuple[str, ...], str], set[bool]] = {}
        for case in suite.cases:
            verdicts.setdefault((case.golds, case.box), set()).add(case.expected)
        # Where the same pair is right and wrong, what surrounds the answer made the difference.
        suite.left_out += [box for (_, box), found in verdicts.items() if len(found) > 1]
        suite.cases = [Case(*pair, *found) for pair, found in verdicts.items() if len(found) == 1]
        if not suite.cases:
            sys.exit(f"{name}: no pair of gold and answer in {source.repository} at {source.commit}.")
        yield suite


class Clone:
    """A git clone below a folder, up to two folders down, bare or not, that has a source's commit."""

    def __init__(self, folder: Path, source: Source) -> None:
        places = (each for level in ("*", "*/*", "*/*/*") for each in sorted(folder.glob(level)))
        folders = (each for each in places if (each / "HEAD").is_file())
        self._git = next((each for each in folders if self._has(each, source.commit)), None)
        self._commit = source.commit
        if self._git is None:
            sys.exit(
                f"{folder} has no clone of {source.repository} with the commit {source.commit}. Get it:\n"
                f"git clone https://github.com/{source.repository} {folder / source.repository}\n"
                f"git -C {folder / source.repository} fetch origin {source.commit}"
            )

    def paths(self) -> list[str]:
        """All files of the commit."""
        return self._run(self._git, "ls-tree", "-r", "--name-only", self._commit).stdout.splitlines()

    @functools.cache  # noqa: B019 - a handful of clones
    def text(self, path: str) -> str:
        """A file of the commit."""
        return self._run(self._git, "show", f"{self._commit}:{path}").stdout

    def _has(self, folder: Path, commit: str) -> bool:
        return self._run(folder, "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0

    @staticmethod
    def _run(folder: Path | None, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "--git-dir", str(folder), *words]
        return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)


def _collect(suite: Suite, tree: ast.Module) -> None:
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        found = [
            *_parametrized(function),
            *_equivalences(function),
            *_rewards(function),
            *_evaluated(function),
        ]
        for raw in found:
            case = _case(raw)
            if case is None:
                suite.left_out.append(f"{function.name}: {raw.answer[:60]!r}")
            else:
                suite.cases.append(case)


def _case(raw: _Raw) -> Case | None:
    """The pair as a box and golds; None if the answer must be found in prose or boxes first."""
    golds = tuple(gold for text in raw.golds if (gold := _gold(text)) is not None)
    box = raw.answer if raw.bare else _box(raw.answer)
    if raw.expected is None or box is None or not golds:
        return None
    return Case(golds, box, raw.expected)


def _gold(text: str) -> str | None:
    if "boxed" in text:
        return last_boxed(text) if text.count("boxed") == 1 else None
    spans = [next(filter(None, found.groups())).strip() for found in _MATH.finditer(text)]
    if len(spans) == 1 and _MATH.fullmatch(text.strip()):
        return spans[0]
    bare = text.replace("$", "").strip()
    return None if _WORDS.search(bare) and spans else bare


def _box(text: str) -> str | None:
    answer = split_thinking(text)[1]
    if "boxed" in answer:
        return last_boxed(answer) if answer.count("boxed") == 1 else None
    spans = [next(filter(None, found.groups())).strip() for found in _MATH.finditer(answer)]
    around = _MATH.sub(" ", answer)
    if len(spans) == 1 and not re.search(r"[0-9]", around):
        return spans[0]
    return None if spans or _WORDS.search(answer) or ":" in answer else answer.strip() or None


# -- the shapes of tests ----------------------------------------------------------------------------------


def _parametrized(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_Raw]:
    """``@parametrize("gold, pred, expected", [...])``, and rows that are ``{completion, answer}``."""
    for mark in function.decorator_list:
        if not isinstance(mark, ast.Call) or not ast.unparse(mark.func).endswith("parametrize"):
            continue
        names = _literal(mark.args[0])
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names or ())
        rows = mark.args[1].elts if isinstance(mark.args[1], ast.List) else []
        for each in rows:
            value = _literal(each)
            if value is None:
                continue
            row = dict(zip(names, value, strict=False)) if len(names) > 1 else value
            if isinstance(row, dict):
                yield from _row(row, function)


def _row(row: Mapping[str, Any], function: ast.AST) -> Iterator[_Raw]:
    gold = next((row[key] for key in ("gold", "ground_truth", "gt", "answer") if key in row), None)
    answer = row.get("pred", row.get("output", row.get("completion")))
    if not isinstance(gold, str) or not isinstance(answer, str):
        return
    expected = row.get("expected", row.get("result"))
    if expected is None:
        asserted = [node for node in ast.walk(function) if isinstance(node, ast.Assert)]
        scores = {
            node.comparators[0].value
            for each in asserted
            for node in ast.walk(each)
            if isinstance(node, ast.Compare) and isinstance(node.comparators[0], ast.Constant)
        }
        expected = scores.pop() if len(scores) == 1 else None
    options = [key for key in row if key in ("strict", "precision", "allow_set_relation_comp")]
    usual = all(row[key] == _DEFAULTS.get(key) for key in options)
    yield _Raw((gold,), answer, expected > 0 if usual and expected is not None else None)


def _equivalences(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_Raw]:
    """``assertTrue(is_equiv(test_in, test_out))``."""
    values = _assigned(function)
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        if name in ("self.assertTrue", "self.assertFalse") and "is_equiv" in ast.unparse(call):
            first, second = values.get("test_in"), values.get("test_out")
            if isinstance(first, str) and isinstance(second, str):
                yield _Raw((first,), second, name.endswith("True"), bare=True)


def _rewards(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_Raw]:
    """``accuracy_reward(completions, solutions)``, then an assertion per reward."""
    values = _assigned(function)
    completions = values.get("completion", values.get("completions"))
    solutions = values.get("solution", values.get("solutions"))
    calls = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("accuracy_reward")
    ]
    if not calls or not isinstance(completions, list) or not isinstance(solutions, list):
        return
    expected: dict[int, Any] = {}
    for node in ast.walk(function):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, node.comparators[0]]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "self.assertEqual":
            sides = node.args[:2]
        if sides and (index := re.fullmatch(r"rewards\[(\d+)\]", ast.unparse(sides[0]))):
            expected[int(index[1])] = _literal(sides[1])
    for at, (completion, solution) in enumerate(zip(completions, solutions, strict=False)):
        score = expected.get(at)
        known = isinstance(score, (int, float)) and not calls[0].keywords
        yield _Raw((solution,), completion[0]["content"], score > 0 if known else None)  # type: ignore[operator]


def _evaluated(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_Raw]:
    """A reply and a ground truth, evaluated; then ``assert output.is_correct is True``, or not."""
    reply: Any = None
    golds: tuple[str, ...] = ()
    for node in function.body:
        source = ast.unparse(node)
        for text in (each.value for each in ast.walk(node) if isinstance(each, ast.Constant)):
            if isinstance(text, str) and "\\boxed{" in text and "ground_truth" not in source:
                reply = text
        for each in ast.walk(node):
            if isinstance(each, ast.Dict):
                keys = [_literal(key) if key else None for key in each.keys]
                if "ground_truth" in keys:
                    value = _literal(each.values[keys.index("ground_truth")])
                    golds = (value,) if isinstance(value, str) else tuple(value or ())
        if isinstance(node, ast.Assert) and "is_correct" in source and isinstance(reply, str) and golds:
            wrong = "not " in source or source.endswith("False")
            if "isinstance" not in source:
                yield _Raw(golds, reply, not wrong)
                reply = None


def _assigned(function: ast.AST) -> dict[str, Any]:
    return {
        node.targets[0].id: _literal(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
