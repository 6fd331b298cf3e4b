"""Artefacts: files that attack whoever opens them. The host previews and copies, but never loads or runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from operator import attrgetter

import pytest

from attacks.harness import LIMITS, Attack, fill, table
from attacks.levels import LEVELS, Sandboxes
from attacks.scene import Scene
from mappa_env.workspace.workspace import Workspace

LOADERS = {
    "pickle_reduce": "import pickle\npickle.load(open('model.pkl', 'rb'))",
    "pickle_old_protocol": "import pickle\npickle.load(open('model.pkl', 'rb'))",
    "pickle_build": "import pickle\npickle.load(open('model.pkl', 'rb'))",
    "pickle_in_archive": "import joblib\njoblib.load('model.joblib')",
    "array_of_objects": "import numpy\nnumpy.load('x.npy', allow_pickle=True)",
    "archive_that_climbs": "import tarfile\ntarfile.open('x.tar').extractall('.')",
    "python_module": "import model",
    "python_path_file": "import site\nsite.addsitedir('.')",
    "notes_of_yaml": "import yaml\nyaml.unsafe_load(open('x.yaml'))",
}
"""Artefact -> how a careless reader would open it."""

ATTACKS = table("""
### pickle_reduce
import pickle
class Evil:
    def __reduce__(self):
        return open, ('$drop/$unique', 'w')
pickle.dump(Evil(), open('model.pkl', 'wb'))
### pickle_old_protocol
open('model.pkl', 'wb').write(b"c__builtin__\\nopen\\n(S'$drop/$unique'\\nS'w'\\ntR.")
### pickle_build
import pickle, types
source = "open('$drop/$unique', 'w')"
class Evil:
    def __reduce__(self):
        return exec, (source,)
pickle.dump({'model': Evil(), 'score': 10.0}, open('model.pkl', 'wb'), protocol=5)
### pickle_in_archive
import joblib
class Evil:
    def __reduce__(self):
        return open, ('$drop/$unique', 'w')
joblib.dump(Evil(), 'model.joblib', compress=3)
### array_of_objects
import numpy
class Evil:
    def __reduce__(self):
        return open, ('$drop/$unique', 'w')
numpy.save('x.npy', numpy.array([Evil()], dtype=object), allow_pickle=True)
### archive_that_climbs
import io, tarfile
with tarfile.open('x.tar', 'w') as tar:
    tar.addfile(tarfile.TarInfo('../' * 20 + '$drop/$unique'), io.BytesIO())
### python_module
open('model.py', 'w').write("open('$drop/$unique', 'w')")
### python_path_file
open('x.pth', 'w').write("import os; open('$drop/$unique', 'w')")
### notes_of_yaml
open('x.yaml', 'w').write("!!python/object/apply:builtins.open ['$drop/$unique', 'w']")
""")

BOMBS = table("""
### pickle_that_grows
body = b'(lp0\\n' + b''.join(b'(g%d\\ng%d\\nlp%d\\n' % (n, n, n + 1) for n in range(3000))
open('model.pkl', 'wb').write(body + b'.')
### pickle_of_long_strings
open('model.pkl', 'wb').write(b'\\x80\\x04\\x8d' + (2**62).to_bytes(8, 'little') + b'x' * 100000)
### pickle_of_long_numbers
open('model.pkl', 'wb').write(b'L' + b'9' * 500000 + b'L\\n.' + b'I' + b'9' * 50000 + b'\\n.')
### pickle_of_text_numbers
open('model.pkl', 'wb').write(b'\\x80\\x04' + b"F" + b'1' * 60000 + b'\\n' + b"S'" + b'a' * 60000)
### pickle_with_countless_names
open('model.pkl', 'wb').write(b''.join(b'cos\\nsystem%d\\n' % n for n in range(9000)) + b'.')
### pickle_with_wild_memo
open('model.pkl', 'wb').write(b"S'os'\\np99999999999999999999\\nS'x'\\np-5\\ng-7\\nr\\xff\\xff\\x93.")
### pickle_cut_off
open('model.pkl', 'wb').write(b'\\x80\\x04\\x95\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x7f\\x8c')
### pickle_of_bad_text
open('model.pkl', 'wb').write(b'\\x80\\x04\\x8c\\x04\\xff\\xfe\\xfd\\xfc\\x8c\\x01\\x1b\\x93.')
### table_of_one_line
open('x.csv', 'w').write('1,' * (2 << 20))
### table_of_one_cell
open('x.csv', 'w').write('"' + 'x' * (4 << 20))
### table_of_quotes
open('x.csv', 'w').write('"' * (1 << 20))
### table_of_many_lines
open('x.csv', 'w').write('\\n' * (2 << 20))
### table_with_zeros
open('x.csv', 'wb').write(b'a,b\\n\\0,\\0\\n' * 1000)
### table_with_formulas
open('x.csv', 'w').write('=cmd|calc!A0,\\x1b[31m,\\u202e\\n' * 100)
### table_with_marks
open('x.csv', 'wb').write(b'\\xff\\xfe' + 'a,b\\n'.encode('utf-16-le') * 1000)
### nested_json
open('x.json', 'w').write('[' * (1 << 20))
### line_separators
open('x.txt', 'w').write('\\u2028\\x85\\x0b\\x0c\\x1c' * 100000)
### compressed_bomb
import zlib
open('x.zip', 'wb').write(zlib.compress(bytes(8 << 20)))
### name_says_pickle
open('x.pkl', 'w').write('id,target\\n1,2\\n')
### name_says_table
import pickle
open('x.csv', 'wb').write(pickle.dumps(list(range(1000))))
""")


def open_all(workspace: Workspace) -> None:
    """Do all that the host does with artefacts; each operation must be fast and of bounded size."""
    for name in workspace.scan().entries:
        started = time.process_time()
        seen = workspace.preview(name)
        assert len(str(seen)) < 200_000
        assert seen.lines or seen.kind == "pickle"
        assert all(line.isprintable() for line in seen.lines)
        size = workspace.scan().entries[name].size
        assert len(workspace.read(name, size)) == size
        assert time.process_time() - started < 10
    workspace.copy().remove()


@pytest.mark.parametrize("attack", [a for a in ATTACKS if a.name in LOADERS], ids=attrgetter("name"))
def test_canary_careless_loader_is_hurt(attack: Attack) -> None:
    scene = Scene(os.getuid())
    with Workspace() as workspace:
        subprocess.run([sys.executable, "-c", fill(attack.code, scene)], cwd=workspace.ready(), check=True)
        assert not scene.touched
        subprocess.run([sys.executable, "-c", LOADERS[attack.name]], cwd=workspace.path, check=False)
        assert scene.touched
    scene.close()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("attack", [*ATTACKS, *BOMBS], ids=attrgetter("name"))
def test_artefact(attack: Attack, level: str, sandboxes: Sandboxes) -> None:
    scene = Scene(sandboxes.actor(level))
    with sandboxes[level].open_workspace() as workspace:
        result = sandboxes[level].run(workspace, fill(attack.code, scene), LIMITS)
        assert (result.status, len(result.files)) == ("ok", 1), result
        open_all(workspace)
        assert not scene.touched
    scene.close()
