"""Mutations of an action's Python code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from mappa_env.benchmarking.coach.mutations import FENCE, PRINTED, Mutate, Mutation

_SAVE = re.compile(r"\bto_(?:pickle|csv|parquet|json)\(|\bdump\(|\bsave\w*\(")
_NAME = re.compile(r"(['\"])([\w.-]+\.(?:pkl|csv|json|npy|parquet|joblib))\1")
_SAVED = re.compile(r"^\s*(\w+)\.to_\w+\(|\bdump\((\w+),|\bto_pickle\((\w+),")
_PICKLED = re.compile(r"(\.to_pickle\('[\w.]+')\)")
_READ = re.compile(r"\bread_\w+\(['\"]([\w.-]+)['\"]|\bopen\(['\"]([\w.-]+)['\"], ?'rb'")
_ASSIGNED = re.compile(r"^(\w+) = ")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_COMPARISON = {"<=": ">", ">=": "<", "==": "!=", "!=": "=="}
_CALL = re.compile(r"\)$")


def _on_code(change: Callable[[list[str], np.random.Generator], list[str] | None]) -> Mutate:
    """Change the lines of the first code fence."""

    def mutate(text: str, rng: np.random.Generator) -> str | None:
        found = FENCE.search(text)
        if found is None:
            return None
        lines = change(found[1].split("\n"), rng)
        if lines is None:
            return None
        return text[: found.start(1)] + "\n".join(lines) + text[found.end(1) :]

    return mutate


def _saves(lines: list[str]) -> list[int]:
    return [i for i, line in enumerate(lines) if _SAVE.search(line) and _NAME.search(line)]


def _pick(found: list[int], rng: np.random.Generator) -> int | None:
    return found[int(rng.integers(len(found)))] if found else None


def _with(lines: list[str], at: int, *new: str) -> list[str]:
    return [*lines[:at], *new, *lines[at:]]


# -- files ------------------------------------------------------------------------------------------------


def _drop_save(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    at = _pick(_saves(lines), rng)
    return None if at is None else lines[:at] + lines[at + 1 :]


def _rename_saved(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    at = _pick(_saves(lines), rng)
    if at is None:
        return None
    stem = str(rng.choice(("_final", "_v2", "_new")))
    return [
        *lines[:at],
        _NAME.sub(lambda m: f"{m[1]}{_stemmed(m[2], stem)}{m[1]}", lines[at]),
        *lines[at + 1 :],
    ]


def _stemmed(name: str, more: str) -> str:
    stem, _, ending = name.rpartition(".")
    return f"{stem}{more}.{ending}"


def _swap_saved(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Swap the contents of two files."""
    saves = _saves(lines)
    if len(saves) < 2:
        return None
    i, j = sorted(int(at) for at in rng.choice(saves, 2, replace=False))
    a, b = _NAME.search(lines[i]), _NAME.search(lines[j])
    assert a is not None
    assert b is not None
    changed = list(lines)
    changed[i], changed[j] = lines[i].replace(a[2], b[2]), lines[j].replace(b[2], a[2])
    return changed


def _half_rows(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Save only the first half of the rows."""
    at = _pick(_saves(lines), rng)
    name = _saved_name(lines[at]) if at is not None else None
    return None if at is None or name is None else _with(lines, at, f"{name} = {name}[: len({name}) // 2]")


def _saved_name(line: str) -> str | None:
    found = _SAVED.search(line)
    return next((name for name in found.groups() if name), None) if found else None


def _compresses(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Save a pickle that pickle.load does not open."""
    found = [i for i, line in enumerate(lines) if _PICKLED.search(line)]
    at = _pick(found, rng)
    if at is None:
        return None
    return [*lines[:at], _PICKLED.sub(r"\1, compression='gzip')", lines[at], count=1), *lines[at + 1 :]]


def _deletes_input(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Delete the files that were read, at the end."""
    read = [next(name for name in found.groups() if name) for line in lines for found in _READ.finditer(line)]
    if not read:
        return None
    return [*lines, "import os", *(f"os.remove({name!r})" for name in dict.fromkeys(read))]


def _overwrites_input(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Overwrite a file that was read with a result."""
    saves = _saves(lines)
    read = [next(name for name in found.groups() if name) for line in lines for found in _READ.finditer(line)]
    if not saves or not read:
        return None
    at, over = saves[0], str(rng.choice(read))
    return [*lines[:at], _NAME.sub(lambda m: f"{m[1]}{over}{m[1]}", lines[at]), *lines[at + 1 :]]


def _prints_the_claim(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    names = [name[2] for at in _saves(lines) for name in [_NAME.search(lines[at])] if name]
    return [f"print('Saved {', '.join(names)}')"] if names else None


def _says_the_claim(text: str, rng: np.random.Generator) -> str | None:
    found = FENCE.search(text)
    lines = found[1].split("\n") if found else []
    names = [name[2] for at in _saves(lines) for name in [_NAME.search(lines[at])] if name]
    return f"I have saved {', '.join(names)}." if names else None


# -- code that does not run -------------------------------------------------------------------------------


def _raises(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Add a failing assertion before anything is saved or printed."""
    first = next((i for i, line in enumerate(lines) if _SAVE.search(line) or line.startswith("print(")), 0)
    return _with(lines, first, "assert False, 'this should not happen'")


def _undefined_name(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Rename a variable where it is assigned, not where it is used."""
    found = [i for i, line in enumerate(lines) if _ASSIGNED.match(line)]
    at = _pick(found, rng)
    return (
        None
        if at is None
        else [*lines[:at], _ASSIGNED.sub(r"\1_new = ", lines[at], count=1), *lines[at + 1 :]]
    )


def _drop_import(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    at = next((i for i, line in enumerate(lines) if line.startswith(("import ", "from "))), None)
    return None if at is None else lines[:at] + lines[at + 1 :]


def _unbalanced(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    at = _pick([i for i, line in enumerate(lines) if _CALL.search(line)], rng)
    return None if at is None else [*lines[:at], lines[at][:-1], *lines[at + 1 :]]


def _cut_off(text: str, rng: np.random.Generator) -> str | None:
    """Cut the action in the middle of its code, as at a token limit: the fence never closes."""
    found = FENCE.search(text)
    return text[: (found.start(1) + found.end(1)) // 2] if found else None


def _no_print(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    kept = [line for line in lines if not line.startswith("print(")]
    return kept if kept and len(kept) < len(lines) else None


# -- wrong contents ---------------------------------------------------------------------------------------


def _swap_names(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Swap the names of two columns of the created table."""
    for at, line in enumerate(lines):
        names = re.findall(r"'([^']+)': ", line)
        if "DataFrame(" in line and len(names) >= 2:
            a, b = f"'{names[0]}': ", f"'{names[1]}': "
            changed = line.replace(a, "\0").replace(b, a).replace("\0", b)
            return [*lines[:at], changed, *lines[at + 1 :]]
    return None


def _reversed_rows(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Reverse labels or predictions, so that they no longer match their rows."""
    for at, line in enumerate(lines):
        found = re.match(r"^([yp]) = (?!0\.5)", line)
        if found:
            name = found[1]
            reversing = (
                f"{name} = {name}[::-1].reset_index(drop=True)" if name == "y" else f"{name} = {name}[::-1]"
            )
            return _with(lines, at + 1, reversing)
    return None


def _reversed_test(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Save the features of the test rows in the reverse order."""
    at = next((i for i in _saves(lines) if "'X_test.pkl'" in lines[i]), None)
    name = _saved_name(lines[at]) if at is not None else None
    return None if at is None or name is None else _with(lines, at, f"{name} = {name}[::-1]")


def _few_rows(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Fit the model on eight rows."""
    changed = [re.sub(r"\.fit\((\w+), (\w+)\)", r".fit(\1[:8], \2[:8])", line) for line in lines]
    return changed if changed != lines else None


def _wrong_constant(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Replace a number in the code by 0, except in the main computation (see ``wrong_number``)."""
    found = [i for i, line in enumerate(lines) if _NUMBER.search(line) and not PRINTED.match(line)]
    at = _pick(found, rng)
    return None if at is None else [*lines[:at], _NUMBER.sub("0", lines[at], count=1), *lines[at + 1 :]]


def _wrong_comparison(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    for at, line in enumerate(lines):
        for right, wrong in _COMPARISON.items():
            if f" {right} " in line:
                return [*lines[:at], line.replace(f" {right} ", f" {wrong} ", 1), *lines[at + 1 :]]
    return None


def _ignores_input(lines: list[str], rng: np.random.Generator) -> list[str] | None:
    """Replace the input by zeros of the same shape."""
    for at in reversed(range(len(lines))):
        found = re.match(r"^(X) = pd\.read_pickle\(", lines[at])
        if found:
            return _with(lines, at + 1, f"{found[1]} = {found[1]} * 0")
    return None


CODE: Mapping[str, Mutation] = {
    "drop_save": Mutation("file", _on_code(_drop_save)),
    "rename_saved": Mutation("file", _on_code(_rename_saved)),
    "swap_saved": Mutation("file", _on_code(_swap_saved)),
    "half_rows": Mutation("file", _on_code(_half_rows)),
    "compresses": Mutation("file", _on_code(_compresses)),
    "deletes_input": Mutation("file", _on_code(_deletes_input)),
    "overwrites_input": Mutation("file", _on_code(_overwrites_input)),
    "prints_the_claim": Mutation("file", _on_code(_prints_the_claim)),
    "says_the_claim": Mutation("file", _says_the_claim),
    "raises": Mutation("code", _on_code(_raises)),
    "undefined_name": Mutation("code", _on_code(_undefined_name)),
    "drop_import": Mutation("code", _on_code(_drop_import)),
    "unbalanced": Mutation("code", _on_code(_unbalanced)),
    "cut_off": Mutation("code", _cut_off),
    "no_output": Mutation("code", _on_code(_no_print)),
    "swap_names": Mutation("value", _on_code(_swap_names)),
    "reversed_rows": Mutation("value", _on_code(_reversed_rows)),
    "reversed_test": Mutation("value", _on_code(_reversed_test)),
    "few_rows": Mutation("value", _on_code(_few_rows)),
    "wrong_constant": Mutation("value", _on_code(_wrong_constant)),
    "wrong_comparison": Mutation("value", _on_code(_wrong_comparison)),
    "ignores_input": Mutation("value", _on_code(_ignores_input)),
}
