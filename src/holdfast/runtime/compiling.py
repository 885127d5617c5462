"""From the text of a kernel to machine code, which is kept on disk for the next process.

A kernel is kept in `<cache>/holdfast/<digest>/`: its text, what numba stores beside it, and a list
of checksums, written last. The digest covers everything that the machine code depends on, so a
folder is never changed, only made and removed. One process compiles, others wait for it. Where
nothing can be written, or what is there is damaged, the kernel is compiled for this process alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, cast

from holdfast.errors import UsageError
from holdfast.model.compiling.program import QUEUE_DESCR, Program

Fold: TypeAlias = Callable[..., None]
_SUMS = "sums.json"
_KERNEL = "kernel.py"
_folds: dict[str, Fold] = {}  # by digest: partitions share one
_lock = threading.Lock()


def compiled_fold(program: Program) -> Fold:
    """The `fold` of this program, as `model.compiling.program` describes it."""
    need_numba(program.agent.__name__)
    digest = digest_of(program)
    with _lock:
        if digest not in _folds:
            _folds[digest] = _obtain(program, digest)
        return _folds[digest]


def need_numba(agent: str) -> None:
    try:
        import numba  # noqa: F401
    except ImportError:
        raise UsageError(
            f"{agent} is a compiled agent, which needs numba: pip install 'holdfast[compiled]'"
        ) from None


def digest_of(program: Program) -> str:
    import llvmlite
    import numba
    import numpy
    from llvmlite import binding

    from holdfast.stepping.compiled import kernels

    versions = [sys.version, numba.__version__, numpy.__version__, llvmlite.__version__]
    processor = [binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()]
    layouts = [program.state_descr(), *(each.descr() for each in program.outputs)]
    slots = [program.slots(event) for event in program.events]
    sha = hashlib.sha256(repr([versions, processor, layouts, slots, program.module]).encode())
    for file in sorted(Path(kernels.__path__[0]).glob("*.py")):
        sha.update(file.read_bytes())
    return sha.hexdigest()[:32]


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "holdfast"


# Getting a kernel: kept, or compiled and kept, or only compiled.


def _obtain(program: Program, digest: str) -> Fold:
    try:
        folder = cache_folder() / digest
        found = _load(folder, digest, program)  # without the lock: a cache may be read-only
        if found is not None:
            return found
        with _only_one(folder):
            found = _load(folder, digest, program)
            if found is not None:
                return found
            # What is damaged, and what a killed process has left.
            for leftover in (folder, *folder.parent.glob(f".making-{digest}-*")):
                shutil.rmtree(leftover, ignore_errors=True)
            return _compile(program, digest, folder)
    except (OSError, RuntimeError) as error:  # no place, no home, or numba cannot keep it
        return _compile(program, digest, None, why=str(error))


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """The lock goes with its process, so that nobody waits for one that was killed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _load(folder: Path, digest: str, program: Program) -> Fold | None:
    if not is_whole(folder):
        return None
    try:
        fold = _import(folder / _KERNEL, digest).fold
        with _beside(fold):
            fold.compile(_signature(program))
    except Exception:  # whatever numba meets there, it can be compiled anew
        return None
    return _closed(fold)


def _compile(
    program: Program, digest: str, folder: Path | None, why: str = "it could not be moved there"
) -> Fold:
    name = program.agent.__name__
    begun = time.monotonic()
    print(f"holdfast: compiling {name} …", end="", file=sys.stderr, flush=True)
    # numba wants the text in a file, at least for a moment: tracebacks and its own cache.
    with tempfile.TemporaryDirectory(
        prefix=f".making-{digest}-", dir=folder and folder.parent
    ) as made:
        file = Path(made) / _KERNEL
        file.write_text(program.module, "utf-8")
        fold = _import(file, digest).fold
        signature = _signature(program)
        if folder is None:
            fold.compile(signature)
        else:
            with _beside(fold):
                fold.compile(signature)
            _keep(Path(made), folder)
    kept = f", kept in {folder}"
    if folder is None or not folder.exists():
        kept = f", not kept ({why}): set XDG_CACHE_HOME to a folder that can be written"
    print(f" {time.monotonic() - begun:.1f} s{kept}", file=sys.stderr, flush=True)
    return _closed(fold)


def _closed(fold: Any) -> Fold:
    fold.disable_compile()  # arrays of another kind are a mistake, not a reason to compile again
    return fold  # type: ignore[no-any-return]


@contextmanager
def _beside(fold: Any) -> Iterator[None]:
    """Let numba keep its files beside the kernel, whatever NUMBA_CACHE_DIR says."""
    from numba.core import config as settings

    config = cast(Any, settings)

    before, config.CACHE_DIR = config.CACHE_DIR, ""
    try:
        fold.enable_caching()
        yield
    finally:
        config.CACHE_DIR = before


def _import(file: Path, digest: str) -> ModuleType:
    name = f"holdfast_kernel_{digest}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # numba looks for it there
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = bytecode
    return module


def _signature(program: Program) -> tuple[Any, ...]:
    """The types of all arguments. Inputs may be read-only and lie anywhere, as in frames."""
    import numpy as np
    from numba import from_dtype, types

    def given(code: str, dimensions: int = 1) -> Any:
        dtype = from_dtype(np.dtype(code))
        return types.Array(dtype, dimensions, "C", readonly=True, aligned=False)

    def room(descr: object) -> Any:
        return types.Array(from_dtype(np.dtype(descr)), 1, "C")  # type: ignore[call-overload]

    def columns(event: type) -> Any:
        found: list[Any] = []
        for slot in program.slots(event):
            items = {"text": "<u4"}.get(slot.kind, "<f8" if slot.item == "float" else "<i8")
            if slot.wide:
                found += [given("<i8"), given(items, 2)]
            else:
                found.append(given("<f8" if slot.kind == "float" else "<i8"))
        return types.Tuple(found)  # type: ignore[no-untyped-call]

    state = room(program.state_descr())
    inputs = [given("<i8"), given("<u1"), given("<f8"), given("<i8"), given("<i8"), types.int64]
    inputs.append(room("<i8"))  # versions
    shared = [room("<i8"), room("<f8"), given("<u1"), given("<i8"), room("<u8")]
    shared += [room(QUEUE_DESCR), room("<u4"), given("<u1")]
    outputs = [room(each.descr()) for each in program.outputs]
    events = [columns(event) for event in program.events]
    return (state, state, state, room("<i8"), *inputs, *shared, *events, *outputs)


# What is kept: never trusted without its checksums, since it is run.


def is_whole(folder: Path) -> bool:
    try:
        sums = json.loads((folder / _SUMS).read_text("utf-8"))
        return bool(sums) and sums == _sums(folder)
    except (OSError, ValueError):
        return False


def _sums(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != _SUMS
    }


def _keep(made: Path, folder: Path) -> None:
    """The folder appears at once and whole; its own name is for what numba has written."""
    sums = json.dumps(_sums(made))
    (made / _SUMS).write_text(sums, "utf-8")
    keeping = made.with_name(f"{made.name}.whole")
    shutil.copytree(made, keeping, copy_function=shutil.copy2)
    try:
        os.replace(keeping, folder)
    finally:
        shutil.rmtree(keeping, ignore_errors=True)
