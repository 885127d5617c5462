"""A library that makes every sync 2 ms slower, built when it is first needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.results import Unavailable

HERE = Path(__file__).parent


def build() -> Path:
    """The library for LD_PRELOAD."""
    source, library = HERE / "slow_sync.c", HERE / "built" / "slow_sync.so"
    if library.exists() and library.stat().st_mtime >= source.stat().st_mtime:
        return library
    library.parent.mkdir(exist_ok=True)
    words = ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(source)]
    try:
        subprocess.run([*words, "-ldl"], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise Unavailable("no C compiler: install cc to slow syncs down") from None
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"cc: {error.stderr.strip().splitlines()[-1]}") from None
    return library
