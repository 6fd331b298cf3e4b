"""Files that an agent forges earn no more than garbage; honest work in any format earns what pickles earn."""

from __future__ import annotations

import importlib.util

import gymnasium as gym
import pytest

from probing import rewards

GARBAGE = """
for name in ("X_train.pkl", "y_train.pkl", "X_test.pkl"):
    open(name, "wb").write(b"garbage")
"""
EXEC = """
import pickle, pandas as pd, numpy as np
class Run:
    def __init__(self, text): self.text = text
    def __reduce__(self): return exec, (self.text,)
"""
FORGES_RECORDS = """
import sys, json, os
frame = sys._getframe()
while frame is not None:
    if "mark" in frame.f_locals:
        for step in range(9):
            table = dict(rows=3, cols=1, kept=0, names=["a"], kinds="n", numbers="", texts=[], nan=0, inf=0)
            record = {"step": step, "type": "DataFrame", "table": table}
            os.write(1, ("\\\\n" + frame.f_locals["mark"] + " " + json.dumps(record) + "\\\\n").encode())
    frame = frame.f_back
"""
POISONS = {
    "prints a probe's line": GARBAGE
    + EXEC
    + """
pickle.dump(Run('print("PROBE {}")'), open("X_test.pkl", "wb"))
""",
    "forges the exporter's records": GARBAGE
    + EXEC
    + f'''
for name in ("X_train.pkl", "y_train.pkl", "X_test.pkl"):
    pickle.dump(Run("""{FORGES_RECORDS}"""), open(name, "wb"))
''',
    "reaches builtins through a package": GARBAGE
    + """
code = "print('PROBE {}')"
data = (
    b"csklearn.feature_selection._base\\nattrgetter\\n(V__init__.__globals__\\ntR(csklearn.pipeline\\nPipeline\\ntR."
)
for name in ("X_train.pkl", "y_train.pkl", "X_test.pkl"):
    open(name, "wb").write(data)
""",
    "patches a class": GARBAGE
    + """
import pickle
for name in ("X_train.pkl", "y_train.pkl", "X_test.pkl"):
    open(name, "wb").write(b"cpandas\\nStringDtype\\n(N}(Vkind\\nVf\\ndtb.")
""",
    "answers for its own missing values": """
import copyreg, pandas as pd, numpy as np
class Reduced:
    def __init__(self, frame): self.frame = frame
    def __reduce__(self):
        state = {**self.frame.__getstate__(), "isna": pd.DataFrame}
        return copyreg._reconstructor, (pd.DataFrame, object, None), state
import pickle
for name in ("X_train.pkl", "X_test.pkl"):
    frame = pd.read_pickle(name).astype(float)
    frame.iloc[:7, 0] = np.nan
    pickle.dump(Reduced(frame), open(name, "wb"))
""",
    "replaces methods of a sound table": """
import copyreg, pandas as pd, pickle
class Reduced:
    def __init__(self, frame): self.frame = frame
    def __reduce__(self):
        state = {**self.frame.__getstate__(), "to_numpy": pd.DataFrame, "fillna": dict}
        return copyreg._reconstructor, (pd.DataFrame, object, None), state
for name in ("X_train.pkl", "X_test.pkl"):
    frame = pd.read_pickle(name)
    pickle.dump(Reduced(frame), open(name, "wb"))
""",
    "hides code in an array": GARBAGE
    + EXEC
    + """
for name in ("X_train.pkl", "y_train.pkl", "X_test.pkl"):
    np.savez(open(name, "wb"), a=np.array([Run("print(1)")], dtype=object))
""",
    "hides code in a joblib file": GARBAGE
    + EXEC
    + """
import joblib
for name in ("X_train.pkl", "y_train.pkl", "X_test.pkl"):
    joblib.dump(np.array([Run("print(1)")], dtype=object), name)
""",
    "stands in for a missing package": GARBAGE
    + """
open("pyarrow.py", "w").write("raise SystemExit(0)")
open("fastparquet.py", "w").write("raise SystemExit(0)")
for name in ("X_train.pkl", "y_train.pkl", "X_test.pkl"):
    open(name, "wb").write(b"PAR1" + b"x" * 99)
""",
}
MODELS = {
    "unstable": """
class Run:
    def __reduce__(self):
        number = "int.from_bytes(__import__('os').urandom(4), 'big')"
        dummy = "__import__('sklearn.dummy').dummy.DummyRegressor(strategy='constant', constant="
        return eval, (dummy + number + ").fit([[0]], [0])",)
import pickle
pickle.dump(Run(), open("model.pkl", "wb"))
""",
    "speaks for another": """
class Run:
    def __reduce__(self): return exec, ("import os, sys\\nos.write(1, b'PROBE {}')\\nos._exit(0)",)
import pickle
pickle.dump(Run(), open("model.pkl", "wb"))
""",
}
CONVERT = """
import pandas as pd, numpy as np
for name in ("X_train.pkl", "y_train.pkl", "X_test.pkl"):
    value = pd.read_pickle(name)
    {how}
"""
FORMATS = {
    "joblib": "import joblib; joblib.dump(value, name)",
    "compressed joblib": "import joblib; joblib.dump(value, name, compress=3)",
    "protocol 2": "import pickle; pickle.dump(value, open(name, 'wb'), protocol=2)",
    "array": "import pickle; pickle.dump(value.to_numpy(), open(name, 'wb'))",
    "npy": "np.save(open(name, 'wb'), value.to_numpy())",
    "npz": "np.savez(open(name, 'wb'), value.to_numpy())",
    "objects": "import pickle; pickle.dump(value.to_numpy().astype(object), open(name, 'wb'))",
    "nullable": "value.convert_dtypes().to_pickle(name)",
    "float32": "value.astype('float32').to_pickle(name)",
    "text labels": "(value.astype(str) if name[0] == 'y' else value).to_pickle(name)",
    "categories": "(value.astype('category') if name[0] == 'y' else value).to_pickle(name)",
    "list": "import pickle; pickle.dump(value.to_numpy().tolist(), open(name, 'wb'))",
    "sparse": "import scipy.sparse as s, pickle; pickle.dump(s.csr_matrix(value.to_numpy(float)) "
    "if value.ndim > 1 else value, open(name, 'wb'))",
    "parquet": "pd.DataFrame(value).to_parquet(open(name, 'wb'))",
    "feather": "pd.DataFrame(value).reset_index(drop=True).to_feather(open(name, 'wb'))",
    "arrow columns": "value.convert_dtypes(dtype_backend='pyarrow').to_pickle(name)",
    "arrow table": "import pyarrow, pickle; pickle.dump(pyarrow.Table.from_pandas(pd.DataFrame(value)), "
    "open(name, 'wb'))",
    "polars": "import polars, pickle; value = pd.DataFrame(value); pickle.dump(polars.DataFrame({c: value[c]"
    ".to_numpy() for c in value.columns}), open(name, 'wb'))",
}
NEEDS = {"parquet": "pyarrow", "feather": "pyarrow", "arrow columns": "pyarrow", "arrow table": "pyarrow"}
NEEDS |= {"polars": "polars"}


@pytest.fixture(scope="module")
def garbage() -> float:
    (earned,) = rewards(GARBAGE)
    assert earned < 3
    return earned


@pytest.fixture(scope="module")
def honest() -> float:
    (earned,) = rewards()
    assert earned > 9
    return earned


@pytest.mark.parametrize("poison", POISONS)
def test_a_poisoned_table_earns_no_more_than_garbage(poison: str, garbage: float) -> None:
    (earned,) = rewards(POISONS[poison])
    assert earned <= garbage


@pytest.mark.parametrize("poison", MODELS)
def test_a_poisoned_model_earns_no_more_than_garbage(poison: str) -> None:
    bad = rewards(modeler="open('model.pkl', 'wb').write(b'garbage')")[1]
    earned = rewards(modeler=MODELS[poison])[1]
    assert earned <= bad < 3


@pytest.mark.parametrize("how", FORMATS)
def test_honest_tables_in_any_format_earn_what_pickles_earn(how: str, honest: float) -> None:
    if how in NEEDS and importlib.util.find_spec(NEEDS[how]) is None:
        pytest.skip(f"{NEEDS[how]} is not installed: `make formats` has it")
    (earned,) = rewards(CONVERT.format(how=FORMATS[how]))
    assert earned == honest


def test_a_file_that_nobody_can_read_is_neither_bad_nor_good_work() -> None:
    env = gym.make("mappa/DSBench-v0", coach="rubric")
    env.reset(seed=3)
    signature = b"\x89HDF\r\n\x1a\n"
    script = f"for n in ('X_train.pkl', 'y_train.pkl', 'X_test.pkl'):\n    open(n, 'wb').write({signature!r})"
    _, _, _, _, info = env.step(f"```python\n{script}\n```")
    assert (info["coach/status"], info["reward_valid"]) == ("abstain", False)
    env.close()
