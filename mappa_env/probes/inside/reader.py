"""Reads tables as data alone: what a pickle may name is listed here, and runs no code of its own.

Only what rebuilds data counts: containers of Python, arrays, frames, series, indexes and their types. A list
of packages would not do, for a package's modules hold whatever they import.
"""

from __future__ import annotations

import _compat_pickle
import importlib.util
import io
import os
import pickle
import re
import sys
import zipfile
from typing import IO, Any, ClassVar, NamedTuple

NAMES = {
    "array": "array _array_reconstructor",
    "builtins": "bool bytearray bytes complex dict float frozenset int list object range set slice str tuple",
    "collections": "Counter OrderedDict defaultdict deque",
    "copyreg": "_reconstructor",
    "_codecs": "encode",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "numpy": "ndarray dtype matrix record recarray",
    "numpy.rec": "recarray",
    "numpy.ma": "MaskedArray",
    "numpy.ma.core": "MaskedArray _mareconstruct",
    "numpy._core.multiarray": "_reconstruct scalar",
    "numpy._core.numeric": "_frombuffer",
    "pandas": "NA",
    "pandas._libs.arrays": "__pyx_unpickle_NDArrayBacked",
    "pandas._libs.internals": "_unpickle_block",
    "pandas._libs.missing": "NA _NA",
    "pandas._libs.tslibs.nattype": "_nat_unpickle",
    "pandas._libs.tslibs.timestamps": "Timestamp _unpickle_timestamp",
    "pandas._libs.tslibs.timedeltas": "Timedelta _timedelta_unpickle",
    "pandas.core.indexes.base": "_new_Index",
    "pandas.core.indexes.datetimes": "_new_DatetimeIndex",
    "pandas.core.indexes.interval": "_new_IntervalIndex",
    "polars.dataframe.frame": "DataFrame",
    "polars.series.series": "Series",
    "pyarrow.lib": "_reconstruct_record_batch _reconstruct_table _restore_array binary chunked_array "
    "decimal128 dictionary duration field large_list list_ py_buffer schema struct time32 time64 timestamp "
    "type_for_alias",
    "zoneinfo": "ZoneInfo",
}
"""What rebuilds data, by module; ``_is_data`` adds classes by what they derive from."""

JOBLIB_MARK = ("joblib.numpy_pickle", "NumpyArrayWrapper")
_REBUILDS = re.compile("unpickle|reconstruct|rebuild|restore|^_?new_|^[A-Z]")
"""Names of functions that rebuild objects, and of classes."""

COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x5d\x00", b"\x78")
"""First bytes of gzip, bzip2, xz, lzma and zlib."""


_OTHERS = (b"\x93NUMPY", b"PK\x03\x04", b"PAR1", b"ARROW1", b"FEA1")
"""First bytes of other files than pickles that are read here."""


class CodeError(Exception):
    """A pickle names something that is no data. ``unusual``: of a package, so it may be data all the same."""

    def __init__(self, name: str, *, unusual: bool) -> None:
        super().__init__(name)
        self.unusual = unusual


class Read(NamedTuple):
    """``value``: what a file holds. ``plain``: whether ``pickle.load`` and ``pandas.read_pickle`` load it.

    ``other``: what they load instead of ``value``, if they do (None: nothing). ``archive``: it holds several
    named arrays.
    """

    value: Any
    plain: bool = False
    other: Any = None
    archive: bool = False


def read_data(file: str) -> Read:
    """The content of a file, in the format that its first bytes tell. Raises whatever the file is not."""
    with open(file, "rb") as stream:
        head = stream.read(8)
        stream.seek(0)
        if head.startswith(b"\x93NUMPY"):
            return Read(_read_array(stream))
        if head.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(stream) as archive:
                arrays = {name.removesuffix(".npy"): _member(archive, name) for name in archive.namelist()}
                return Read(arrays, archive=True)
        if head.startswith((b"PAR1", b"ARROW1", b"FEA1")):
            return Read(_read_columns(file, "parquet" if head.startswith(b"PAR1") else "feather"))
        if head.startswith(COMPRESSED):
            return Read(_read_pickle(_unpacked(stream, head)).value)
        return _read_pickle(stream)


def _unpacked(stream: IO[bytes], head: bytes) -> IO[bytes]:
    import bz2
    import gzip
    import lzma
    import zlib

    data = stream.read()
    kinds: dict[bytes, Any] = {b"\x1f": gzip.decompress, b"B": bz2.decompress, b"\x78": zlib.decompress}
    return io.BytesIO(kinds.get(head[:1], lzma.decompress)(data))


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    with archive.open(name) as stream:
        return _read_array(io.BytesIO(stream.read()))


def _read_array(stream: IO[bytes]) -> Any:
    """An ``.npy`` file; its objects, if it has any, are read as data too."""
    import numpy as np

    version = np.lib.format.read_magic(stream)  # type: ignore[no-untyped-call]
    read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_0", None)
    shape, columns_first, dtype = (read_header or np.lib.format.read_array_header_2_0)(stream)
    if dtype.hasobject:
        return _read_pickle(stream).value
    array = np.frombuffer(stream.read(), dtype=dtype, count=int(np.prod(shape, dtype=np.int64)))
    return array.reshape(shape[::-1]).T if columns_first else array.reshape(shape)


def _read_columns(file: str, kind: str) -> Any:
    import pandas as pd

    try:
        return getattr(pd, f"read_{kind}")(file)
    except ImportError:
        try:
            import polars
        except ImportError:
            raise CodeError(f"no package that reads {kind} is installed", unusual=True) from None
        return polars.read_parquet(file) if kind == "parquet" else polars.read_ipc(file, memory_map=False)


def _read_pickle(stream: IO[bytes]) -> Read:
    """A pickle, or a joblib file: joblib's marks of arrays in a pickle tell it, as they tell joblib."""
    data = stream.read()
    plain = DataUnpickler(io.BytesIO(data))
    try:
        read = Read(plain.load(), plain=True)
    except Exception as error:
        if not plain.marks or isinstance(error, (CodeError, ImportError)):  # names that joblib may not see
            raise
        read = Read(None)  # what the bytes of an array do to a reader of pickles
    if not plain.marks:
        return read
    reader = _joblib_reader(io.BytesIO(data))
    value, inner = reader.load(), reader.objects
    # joblib pickles an array of objects on its own: where it does, a reader of pickles gets that array alone
    alone = read.plain and bool(inner) and _same_objects(inner[0], read.value)
    return Read(value, read.plain and not alone, None if alone else read.value)


def _same_objects(one: Any, other: Any) -> bool:
    import numpy as np

    if not type(one) is type(other) is np.ndarray or one.shape != other.shape:
        return False
    return all(repr(a) == repr(b) for a, b in zip(one.ravel(), other.ravel(), strict=True))


def plain_reader(stream: IO[bytes]) -> PlainUnpickler | None:
    """``pickle.load`` itself, written in C, which refuses some of what ours reads; None: it is no pickle.

    It has no guard at the opcode that sets attributes: use it after everything else.
    """
    head = stream.read(8)
    stream.seek(0)
    return None if head.startswith((*_OTHERS, *COMPRESSED)) else PlainUnpickler(stream)


_Unpickler: Any = pickle._Unpickler


class DataUnpickler(_Unpickler):
    """Loads data alone. Written in Python, where the opcode that sets attributes can be held back."""

    dispatch: ClassVar[dict[int, Any]] = dict(_Unpickler.dispatch)
    marks = False
    """Whether it met joblib's mark of an array."""

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle names. Raises CodeError."""
        self.marks |= (module, name) == JOBLIB_MARK
        return found(*(_of_python_3(module, name) if self.proto < 3 else (module, name)))

    def load_build(self) -> None:
        """Set an object's state; never that of a class or a function."""
        target = self.stack[-2]
        if isinstance(target, type) or callable(getattr(type(target), "__get__", None)):
            raise CodeError(f"it changes {target!r:.80}", unusual=False)
        super().load_build()
        own = getattr(target, "__dict__", {})
        replaced = [str(name) for name in own if callable(getattr(type(target), str(name), None))]
        if replaced and not _is_masked(target, replaced):
            kind = type(target).__name__
            raise CodeError(f"it replaces {', '.join(replaced[:5])} of a {kind}", unusual=False)

    dispatch[pickle.BUILD[0]] = load_build


class PlainUnpickler(pickle.Unpickler):
    """``pickle.load`` itself, for data alone."""

    marks = False
    """Whether it met joblib's mark of an array."""

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle names. Raises CodeError. Whether a name is old, the first reader has judged."""
        self.marks |= (module, name) == JOBLIB_MARK
        return found(*_of_python_3(module, name))


def found(module: str, name: str) -> Any:
    """What a name of a pickle stands for. Raises CodeError."""
    if (module, name) == JOBLIB_MARK:
        return __import__(module, fromlist=[name]).NumpyArrayWrapper
    if (module, name) == ("builtins", "getattr"):
        return _time_zone
    if (module, name) == ("numpy", "memmap"):  # itself it opens files; what is pickled is an array
        return __import__(module).ndarray
    if name in NAMES.get(module.replace("numpy.core", "numpy._core"), "").split() or (
        "." not in name and _is_data(module, name)
    ):
        __import__(module)
        return getattr(sys.modules[module], name)
    if not _is_there(package := module.split(".")[0]):
        raise ModuleNotFoundError(f"No module named {package!r}")  # as it meets the next agent
    raise CodeError(f"it names {module}.{name}, which is no data", unusual=_may_be_data(module, name))


def _of_python_3(module: str, name: str) -> tuple[str, str]:
    """The names of Python 2 that a protocol below 3 may have."""
    module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


def _is_masked(target: Any, replaced: list[str]) -> bool:
    """Whether it is a masked array, which keeps the class of the array beneath."""
    import numpy as np

    masked = type(target) is np.ma.MaskedArray and replaced == ["_baseclass"]
    return masked and vars(target)["_baseclass"] is np.ndarray


def _is_there(package: str) -> bool:
    """Whether the next agent can import it: it is installed, or the workspace holds it."""
    return (
        package == "__main__"
        or package in sys.modules
        or importlib.util.find_spec(package) is not None
        or os.path.isdir(package)
        or os.path.isfile(f"{package}.py")
    )


def _may_be_data(module: str, name: str) -> bool:
    """Whether what is not listed may be a table of an unusual kind.

    The functions of the packages here that rebuild data are listed, so another function of theirs runs code.
    """
    package = module.split(".")[0]
    if package == "__main__" or package in sys.stdlib_module_names:
        return False
    return package not in ("numpy", "pandas", "scipy", "sklearn", "joblib") or bool(_REBUILDS.search(name))


def _is_data(module: str, name: str) -> bool:
    """Whether it is a class of data: an index, an array, a type of cells."""
    package = module.split(".")[0]
    if package not in ("numpy", "pandas", "scipy") or "test" in module or "__main__" in module:
        return False
    import numpy as np

    bases: tuple[Any, ...] = (np.generic, np.dtype)
    if package == "pandas":
        import pandas as pd
        from pandas.api.extensions import ExtensionArray, ExtensionDtype
        from pandas.core.internals import managers
        from pandas.tseries.offsets import BaseOffset

        bases = (pd.DataFrame, pd.Series, pd.Index, ExtensionArray, ExtensionDtype, BaseOffset)
        bases += (managers.BaseBlockManager, pd._libs.sparse.SparseIndex)
    elif package == "scipy":
        import scipy.sparse

        bases = (scipy.sparse.spmatrix, scipy.sparse.sparray)
    __import__(module)
    found = getattr(sys.modules[module], name)
    return isinstance(found, type) and issubclass(found, bases) and found.__module__.startswith(package)


def _time_zone(owner: Any, name: str) -> Any:
    """The one attribute that data asks for by ``getattr``."""
    from zoneinfo import ZoneInfo

    if owner is not ZoneInfo or name != "_unpickle":
        raise CodeError(f"it asks for {name!r:.80} of {owner!r:.80}", unusual=False)
    return ZoneInfo._unpickle  # type: ignore[attr-defined]


def _joblib_reader(stream: IO[bytes]) -> Any:
    """Reads a joblib file, whose arrays follow the pickle stream."""
    import numpy
    from joblib.numpy_pickle import NumpyArrayWrapper

    class JoblibUnpickler(DataUnpickler):
        dispatch: ClassVar[dict[int, Any]] = dict(DataUnpickler.dispatch)
        np, file_handle, mmap_mode, filename = numpy, stream, None, ""
        objects: list[Any] = []  # noqa: RUF012  (one reader per class)

        def load_build(self) -> None:
            """Put an array in the place of its mark."""
            super().load_build()
            mark = self.stack[-1]
            if type(mark) is NumpyArrayWrapper:
                self.stack.pop()
                native = (True,) if mark.read.__code__.co_argcount > 2 else ()  # from joblib 1.5 on
                if mark.dtype.hasobject:
                    self.objects.append(DataUnpickler(stream).load())
                    self.stack.append(self.objects[-1])
                else:
                    self.stack.append(mark.read(self, *native))

        dispatch[pickle.BUILD[0]] = load_build

    return JoblibUnpickler(stream)
