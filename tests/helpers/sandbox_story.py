"""One story for several sandboxes: what its actions do must be told alike by all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mappa_env.sandbox import Limits, Result, Sandbox

STORY = [
    "import os\nos.makedirs('d/empty')\nopen('d/a', 'w').write('1')\nopen('b', 'w').write('2')\nprint(1)",
    "import os\nos.rename('b', 'd/moved')\nopen('d/a', 'a').write('more')\nopen('c', 'w')",
    "import os\nos.rename('c', 't'); os.rename('d/a', 'c'); os.rename('t', 'd/a')",
    "import os\nos.link('c', 'e')\nos.chmod('d/moved', 0o640)\nopen(b'\\xff\\n', 'w').write('raw')\n1 / 0",
    "import os\nprint(oct(os.stat('d/moved').st_mode), sorted(os.listdir(b'.')))\nos.unlink(b'\\xff\\n')",
    "import os\nos.chmod('d/moved', 0o600)\nos.rename('d/moved', 'd/again')\nopen('e', 'a').write('x')\n"
    "print(open('c').read(), oct(os.stat('d/again').st_mode), os.path.samefile('c', 'e'))",
    "import random, sys\nprint(random.random(), hash('x'), open('c').read(), sys.argv)\nexit(3)",
    "import os, shutil\nprint('gone', flush=True)\nfor n in os.listdir('.'): "
    "(shutil.rmtree if os.path.isdir(n) else os.unlink)(n)\nos.kill(os.getpid(), 15)",
    "import pandas as pd\nfrom sklearn.linear_model import LinearRegression\n"
    "t = pd.DataFrame({'a': [1, 2, 3], 'b': [2, 4, 6]})\nt.to_pickle('t.pkl')\nt.to_csv('t.csv')\n"
    "print(LinearRegression().fit(t[['a']], t['b']).coef_.round(3))",
]


def tell(sandbox: Sandbox, story: Sequence[str] = STORY) -> list[tuple[Any, ...]]:
    """What each action of a story came to, in a workspace of ``sandbox``."""
    with sandbox.open_workspace() as workspace:
        workspace.put("given.csv", b"1,2")
        return [_observed(sandbox.run(workspace, code, Limits(wall_s=120), seed=5)) for code in story]


def _observed(result: Result) -> tuple[Any, ...]:
    files = [
        (change.path, change.op, change.size, change.sha256, change.kind, change.links)
        for change in result.files
    ]
    return result.status, result.exit_code, result.stdout, result.stderr, files
