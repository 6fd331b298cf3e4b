"""Controls: honest work that must succeed. A sandbox that refuses everything would pass all other tests."""

from __future__ import annotations

import os
from operator import attrgetter

import pytest

from attacks.harness import Attack, table, wider
from attacks.levels import LEVELS, Sandboxes

WORK = table(
    """
### tables
t = pandas.DataFrame({'a': range(50), 'b': [x % 3 for x in range(50)]})
t.to_csv('t.csv', index=False)
print(pandas.read_csv('t.csv').equals(t), int(t.groupby('b').a.sum().iloc[0]))
### model_saved_and_loaded
import joblib, pickle
from sklearn.linear_model import LogisticRegression
x, y = numpy.arange(40).reshape(-1, 1), numpy.arange(40) > 19
model = LogisticRegression().fit(x, y)
pickle.dump(model, open('m.pkl', 'wb'))
joblib.dump(model, 'm.joblib', compress=3)
print((pickle.load(open('m.pkl', 'rb')).predict(x) == joblib.load('m.joblib').predict(x)).all())
### threads_of_the_libraries
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
x, y = numpy.random.rand(60, 3), numpy.arange(60) % 2
for model in (HistGradientBoostingClassifier(max_iter=3), RandomForestClassifier(5, n_jobs=2)):
    print(model.fit(x, y).predict(x).shape)
print(KMeans(2, n_init=1).fit(x).labels_.shape)
### processes
import multiprocessing, concurrent.futures
with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
with concurrent.futures.ProcessPoolExecutor(2) as pool:
    print(list(pool.map(abs, [-3, -4])))
### threads
import concurrent.futures, queue, threading
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(abs, range(-9, 0))))
### joblib_parallel
from joblib import Parallel, delayed
print(Parallel(n_jobs=-1)(delayed(abs)(-n) for n in range(3)))
### programs
import subprocess, sys
done = subprocess.run([sys.executable, '-c', 'import numpy; print(numpy.ones(1))'],
                      capture_output=True, text=True)
print(done.stdout == '[1.]\\n', done)
print(subprocess.check_output('echo $$((6 * 7)) | cat', shell=True, text=True).strip())
### events
import asyncio
async def main():
    await asyncio.sleep(0.01)
    process = await asyncio.create_subprocess_exec('/bin/echo', 'hello', stdout=-1)
    return (await process.communicate())[0]
print(asyncio.run(main()))
### picture
import matplotlib
matplotlib.use('Agg')
import matplotlib.pyplot as plot
plot.plot([1, 2, 3])
plot.title('$$x^2$$')
plot.savefig('p.png')
print(open('p.png', 'rb').read(4))
### temporary_files
import tempfile
with tempfile.TemporaryDirectory() as folder:
    open(folder + '/x', 'w').write('1')
with tempfile.NamedTemporaryFile('w+') as file:
    file.write('2')
    file.seek(0)
    print(file.read())
### files_copied_and_moved
import shutil, glob, pathlib
open('a.txt', 'w').write('1')
shutil.copyfile('a.txt', 'b.txt')
shutil.move('b.txt', 'c.txt')
pathlib.Path('d/e').mkdir(parents=True)
shutil.copyfile('a.txt', 'd/e/f.txt')
os.replace('c.txt', 'd/g.txt')
shutil.make_archive('all', 'zip', 'd')
shutil.rmtree('d')
print(sorted(glob.glob('*')))
### files_copied_with_their_modes
import shutil
open('a.txt', 'w').write('1')
shutil.copy('a.txt', 'b.txt')
shutil.copy2('a.txt', 'c.txt')
shutil.copytree('.', 'd', ignore=shutil.ignore_patterns('d'))
print(sorted(os.listdir('d')))
### archives
import tarfile, zipfile
open('a.txt', 'w').write('hello')
with zipfile.ZipFile('a.zip', 'w') as z:
    z.write('a.txt')
with zipfile.ZipFile('a.zip') as z:
    z.extractall('out')
with tarfile.open('a.tgz', 'w:gz') as t:
    t.add('a.txt')
with tarfile.open('a.tgz') as t:
    t.extractall('out2', filter='data')
print(open('out/a.txt').read(), open('out2/a.txt').read())
### database
import sqlite3
with sqlite3.connect('x.db') as db:
    db.execute('create table t (x)')
    db.execute('insert into t values (1)')
print(db.execute('select * from t').fetchall())
### database_with_a_log
import sqlite3
with sqlite3.connect('x.db') as db:
    print(db.execute('pragma journal_mode=wal').fetchall())
    db.execute('create table t (x)')
    db.execute('insert into t values (1)')
print(sqlite3.connect('x.db').execute('select * from t').fetchall())
### locks
import fcntl, threading, time
mine, yours = open('lock', 'w'), open('lock', 'w')
fcntl.flock(mine, fcntl.LOCK_EX)
started = time.monotonic()
if os.fork() == 0:
    fcntl.flock(yours, fcntl.LOCK_EX)
    print(time.monotonic() - started >= 0.2)
    os._exit(0)
time.sleep(0.2)
fcntl.flock(mine, fcntl.LOCK_UN)
os.wait()
fcntl.flock(yours, fcntl.LOCK_UN)  # the child held it for both
thread = threading.Thread(target=time.sleep, args=(0.3,))
thread.start()
fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
try:
    fcntl.flock(yours, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print(False)
except BlockingIOError:
    pass
fcntl.lockf(mine, fcntl.LOCK_EX)
thread.join()
### mapped_arrays
x = numpy.memmap('x.bin', dtype='f4', mode='w+', shape=(10,))
x[:] = 2
x.flush()
print(numpy.load('y.npy').sum() if numpy.save('y.npy', x) is None else 0)
### science
import scipy.optimize, scipy.sparse.linalg, sympy
print(round(float(scipy.optimize.minimize(lambda v: (v[0] - 3) ** 2, [0]).x[0]), 2))
print(sympy.integrate(sympy.Symbol('x') ** 2), float(numpy.linalg.inv(numpy.eye(3)).sum()))
### dates
import datetime, time
print(pandas.date_range('2020-01-01', periods=2, tz='Europe/Paris')[0].isoformat(), time.strftime('%Z'))
### columns_on_disk
try:
    import pyarrow
except ImportError:
    print('none')
else:
    pandas.DataFrame({'a': [1]}).to_parquet('x.parquet')
    print(pandas.read_parquet('x.parquet').a.sum())
### boosting
for name in ('lightgbm', 'xgboost'):
    try:
        module = __import__(name)
    except ImportError:
        continue
    kind = getattr(module, {'lightgbm': 'LGBMClassifier', 'xgboost': 'XGBClassifier'}[name])
    kind(n_estimators=2).fit(numpy.random.rand(40, 2), numpy.arange(40) % 2)
print('done')
### ordinary_curiosity
import getpass, locale, platform, socket
print(bool(platform.platform()), os.cpu_count() > 0, bool(getpass.getuser()), os.path.expanduser('~') != '~')
print(socket.gethostname() != '', sys.stdin.read() == '', bool(sys.version))
### permission_asked_before
print(os.access('.', os.W_OK), os.access('.', os.R_OK))
### exit_handlers_and_warnings
import atexit, logging, warnings
atexit.register(print, 'bye')
logging.basicConfig(filename='log.txt')
logging.warning('noted')
warnings.warn('careful')
print(open('log.txt').read().strip())
### modules_of_ones_own
open('helper.py', 'w').write('VALUE = 42')
import importlib
importlib.invalidate_caches()
import helper
print(helper.VALUE)
### deep_but_finite_recursion
sys.setrecursionlimit(20000)
def down(n):
    return n and down(n - 1)
print(down(15000))
### text_of_all_kinds
print('\\u20ac \\u65e5\\u672c \\U0001f600')
open('\\u65e5\\u672c.txt', 'w').write('\\u20ac')
print(open('\\u65e5\\u672c.txt').read())
""",
    prelude="import os, sys\nimport numpy, pandas\n",
)

AT_FULL_ONLY = {"processes"}
"""``multiprocessing`` needs locks in /dev/shm, which at ``landlock`` all actions would share."""


LESS_WHEN_ROOT = {"programs", "permission_asked_before"}
"""At ``landlock``, root's actions have one user id for process counts and another for opening files. access()
checks the first, and programs that the code starts cannot read an interpreter below a closed folder."""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("work", WORK, ids=attrgetter("name"))
def test_honest_work_passes(work: Attack, level: str, sandboxes: Sandboxes) -> None:
    with sandboxes[level].open_workspace() as workspace:
        result = sandboxes[level].run(workspace, work.code.replace("$$", "$"), wider(wall_s=120, cpu_s=60))
    if level == "landlock" and os.getuid() == 0 and work.name in LESS_WHEN_ROOT:
        assert result.status == "ok", result
    elif level == "landlock" and work.name in AT_FULL_ONLY:
        assert (result.status, "PermissionError" in result.stderr) == ("error", True), result
    else:
        assert result.status == "ok", result
        assert result.stdout
        assert "False" not in result.stdout
