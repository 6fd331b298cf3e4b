"""What scientific code does, as small programs: the corpus that the system call filter is derived from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    name: str
    code: str
    needs: tuple[str, ...] = ()  # packages
    works_at: tuple[str, ...] = ("full", "landlock")  # levels whose filter it must survive


_DATA = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 5))
y = X[:, 0] > 0
"""

_PLAIN_FORKS = """
import multiprocessing.context as context
context._concrete_contexts["forkserver"] = context._concrete_contexts["fork"]
"""

_FRAME = f"""{_DATA}
import pandas as pd
frame = pd.DataFrame(X, columns=list("abcde"))
"""

CORPUS: tuple[Action, ...] = (
    Action(
        "pandas",
        f"""{_FRAME}
frame.to_csv("a.csv"), frame.to_pickle("a.pkl"), frame.to_json("a.json")
assert len(pd.read_csv("a.csv")) == len(pd.read_pickle("a.pkl")) == len(pd.read_json("a.json"))
print(frame.groupby(frame.a > 0).agg(["mean", "std"]), frame.merge(frame, on="a").describe())
""",
        ("pandas",),
    ),
    Action(
        "parquet",
        f"""{_FRAME}
frame.to_parquet("a.parquet"), frame.to_feather("a.feather")
assert pd.read_parquet("a.parquet").equals(pd.read_feather("a.feather"))
""",
        ("pandas", "pyarrow"),
    ),
    Action(
        "scikit-learn",
        f"""{_DATA}
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
HistGradientBoostingClassifier(max_iter=20, early_stopping=True).fit(X, y).predict(X)
KMeans(3, n_init=2).fit(X)
RandomForestClassifier(20, n_jobs=2).fit(X, y).predict(X)
print(cross_val_score(LogisticRegression(), X, y, cv=3, n_jobs=2))
""",
        ("sklearn",),
    ),
    Action(
        "scipy",
        f"""{_DATA}
import scipy.fft, scipy.io, scipy.linalg, scipy.optimize, scipy.sparse.linalg, scipy.stats
rosen = scipy.optimize.rosen
scipy.optimize.minimize(rosen, X[0]), scipy.linalg.svd(X), scipy.fft.fft(X, workers=2)
scipy.io.savemat("a.mat", {{"X": X}}), scipy.io.loadmat("a.mat"), scipy.stats.ttest_1samp(X, 0)
np.save("a.npy", X), np.load("a.npy", mmap_mode="r").sum(), np.memmap("m", mode="w+", shape=9).flush()
(rng.normal(size=(600, 600)) @ rng.normal(size=(600, 600))).sum()
""",
        ("scipy",),
    ),
    # scipy's pools are fork servers, which listen on a socket; an action's interpreter gives it plain forks.
    Action(
        "scipy in processes",
        f"""{_PLAIN_FORKS}
import scipy.optimize
scipy.optimize.differential_evolution(
    scipy.optimize.rosen, [(-1, 1)] * 2, workers=2, maxiter=2, updating="deferred"
)
""",
        ("scipy",),
    ),
    Action(
        "sympy",
        """
import sympy
x = sympy.Symbol("x")
print(sympy.integrate(x * sympy.sin(x), x), sympy.lambdify(x, x**2)(3))
""",
        ("sympy",),
    ),
    Action(
        "matplotlib",
        f"""{_DATA}
import os
os.environ.update(MPLCONFIGDIR=os.getcwd(), MPLBACKEND="Agg")
import matplotlib.pyplot as plt
plt.plot(X), plt.title("$x^2$")
for kind in ("png", "pdf", "svg"):
    plt.savefig("a." + kind)
""",
        ("matplotlib",),
    ),
    Action(
        "lightgbm",
        f"""{_DATA}
import lightgbm
model = lightgbm.LGBMClassifier(n_estimators=10, n_jobs=2, verbose=-1).fit(X, y)
model.booster_.save_model("a.txt")
print(model.predict(X)[:3])
""",
        ("lightgbm", "sklearn"),
    ),
    Action(
        "xgboost",
        f"""{_DATA}
import xgboost
model = xgboost.XGBClassifier(n_estimators=10, n_jobs=2).fit(X, y)
model.save_model("a.json")
print(model.predict(X)[:3])
""",
        ("xgboost", "sklearn"),
    ),
    Action(
        "torch",
        """
import torch
model = torch.nn.Linear(5, 1)
model(torch.randn(400, 5)).square().mean().backward()
torch.save(model.state_dict(), "a.pt"), torch.load("a.pt")
""",
        ("torch",),
    ),
    Action(
        "polars",
        """
import polars
polars.DataFrame({"a": range(999)}).write_csv("a.csv")
print(polars.scan_csv("a.csv").group_by(polars.col("a") % 7).len().collect())
""",
        ("polars",),
    ),
    Action(
        "processes",
        """
import concurrent.futures as cf, multiprocessing as mp, os, subprocess, sys
for method in ("fork", "spawn"):
    with mp.get_context(method).Pool(2) as pool:
        assert pool.map(abs, range(-9, 0))[0] == 9
fork = mp.get_context("fork")
queue, value, event = fork.Queue(), fork.Value("i", 3), fork.Event()
queue.put([1] * 9999), event.set()
assert len(queue.get()) == 9999
with cf.ProcessPoolExecutor(2, fork) as pool:
    assert list(pool.map(abs, [-1])) == [1]
subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True)
subprocess.run("ls | sort | head -1; sleep 0.01 & wait", shell=True, check=True, timeout=99)
child = subprocess.Popen(["sleep", "9"])
child.terminate(), child.wait()
os.waitpid(os.fork() or os._exit(0), 0)
print(os.cpu_count(), os.getloadavg())
""",
    ),
    Action(
        "shared memory",
        """
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=4096)
block.buf[0] = 1
block.close(), block.unlink()
""",
    ),
    Action(
        "joblib",
        """
import joblib
for backend in ("loky", "threading", "multiprocessing"):
    assert joblib.Parallel(2, backend=backend)(joblib.delayed(abs)(-i) for i in range(9))[1] == 1
joblib.dump(list(range(99)), "a.joblib"), joblib.Memory("cache", verbose=0).cache(len)([1])
""",
        ("joblib",),
    ),
    Action(
        "threads and signals",
        """
import asyncio, signal, threading, time
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    list(pool.map(time.sleep, [0.01] * 8))
async def main():
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.01) for _ in range(3)))
asyncio.run(main()), threading.Timer(0.01, print).start()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1), signal.pause(), signal.setitimer(signal.ITIMER_REAL, 0)
""",
    ),
    Action(
        "files",
        """
import csv, glob, gzip, mmap, os, pathlib, pickle, shutil, sqlite3, tempfile, zipfile
with sqlite3.connect("a.db") as db:
    db.execute("create table t(a)"), db.execute("insert into t values (1)")
with open("a.csv", "w") as file:
    csv.writer(file).writerows([[1, 2]] * 99)
with gzip.open("a.gz", "wb") as file:
    pickle.dump({"a": 1}, file)
with zipfile.ZipFile("a.zip", "w") as archive:
    archive.write("a.csv")
shutil.unpack_archive("a.zip", "out"), shutil.copyfile("a.csv", "b.csv"), os.replace("b.csv", "c.csv")
with tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "x").write_text("x")
with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryFile() as other:
    file.write(b"x"), file.flush()
with open("a.csv", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
    mapping.flush(), os.fsync(file.fileno())
os.makedirs("d/e"), shutil.rmtree("d"), os.truncate("a.csv", 9), glob.glob("**", recursive=True)
print(shutil.disk_usage("."), os.access("a.csv", os.W_OK), os.path.expanduser("~"), os.stat("a.csv"))
""",
    ),
    Action(
        "files with their attributes",
        """
import shutil, tarfile
open("a", "w").close(), shutil.copy("a", "b"), shutil.copy2("a", "c")
with tarfile.open("a.tar", "w") as archive:
    archive.add("a")
shutil.unpack_archive("a.tar", "out"), shutil.copytree("out", "other")
""",
        works_at=("full",),
    ),
    Action(
        "ctypes and limits",
        """
import ctypes, faulthandler, platform, resource, time, uuid
kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
ctypes.CDLL(None).qsort((ctypes.c_int * 3)(3, 2, 1), 3, 4, kind(lambda a, b: 0))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
faulthandler.enable(), faulthandler.dump_traceback_later(9)
print(resource.getrusage(0), platform.platform(), time.strftime("%c"), uuid.uuid4())
""",
    ),
)
