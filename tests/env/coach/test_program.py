"""Which files a program really uses, by its text and its traceback."""

from __future__ import annotations

import pytest

from mappa_env.coach.program import Program
from rubric_play import ran

FILE = "model.pkl"


@pytest.mark.parametrize(
    "code",
    [
        "model = pickle.load(open('model.pkl', 'rb'))",
        'model = joblib.load("./model.pkl")',
        "if os.path.exists('model.pkl'):\n    pass",
        "print(os.path.getsize('model.pkl'))",
        "path = 'model.pkl'\nload(path)",
        "for name in ('X_test.pkl', 'model.pkl'):\n    try:\n        open(name)\n    finally:\n        pass",
        "names = ['X_test.pkl', 'model.pkl']\nfor name in names:\n    full = name\n    open(full)",
        "files = {'m': 'model.pkl'}; m = pd.read_pickle(files['m'])",
        "loaded = {n: pd.read_pickle(f'{n}.pkl') for n in ('X_test', 'model')}",
        "open('%s.pkl' % 'model')",
        "(Path.cwd() / 'model.pkl').read_bytes()",
        "def load(path='model.pkl'):\n    return open(path)\nload()",
        "model = load(\n    path='model.pkl',\n)",
    ],
)
def test_what_opens_a_file_uses_it(code: str) -> None:
    assert Program(code, ran()).uses(FILE)


@pytest.mark.parametrize(
    "code",
    [
        "'model.pkl'",
        "path = 'model.pkl'",
        "# open('model.pkl')",
        "print('model.pkl')",
        "print('open(model.pkl) fails')",
        "raise FileNotFoundError('model.pkl')",
        "raise FileNotFoundError(2, 'No such file', 'model.pkl')",
        "open('other.pkl')",
        "sys.exit('model.pkl')",
        "pass",
        "",
    ],
)
def test_to_name_a_file_is_no_use(code: str) -> None:
    assert not Program(code, ran()).uses(FILE)


def failing(line: int, error: str) -> str:
    return (
        f'Traceback (most recent call last):\n  File "<action>", line {line}, in <module>\n    ...\n{error}'
    )


def test_what_a_program_never_came_to_is_no_use() -> None:
    code = "raise ValueError('x')\nopen('model.pkl')"
    assert not Program(code, ran("", "error", failing(1, "ValueError: x"))).uses(FILE)
    code = "open('model.pkl')\nraise ValueError('x')"
    assert Program(code, ran("", "error", failing(2, "ValueError: x"))).uses(FILE)


def test_the_traceback_shows_a_use_that_the_text_hides() -> None:
    error = "FileNotFoundError: [Errno 2] No such file or directory: 'model.pkl'"
    code = "name = 'mod' + 'el'\nopen(name + '.pkl')"
    assert Program(code, ran("", "error", failing(2, error))).uses(FILE)
    assert not Program(code, ran()).uses(FILE)
    code = "import os\nraise FileNotFoundError('No such file or directory: ' + repr('mod' 'el.pkl'))"
    assert not Program(code, ran("", "error", failing(2, error))).uses(FILE)


def test_a_program_of_many_names_is_read_in_no_time() -> None:
    names = [f"'{number}.pkl'" for number in range(2000)]
    code = f"names = [{', '.join(names)}]\n" + "open(names)\n" * 2000
    assert not Program(code, ran()).uses(FILE)
    assert Program(code, ran()).uses("7.pkl")
    assert not Program("(" * 5000 + "'model.pkl'" + ")" * 5000, ran()).uses(FILE)
