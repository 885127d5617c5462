"""Folders that are small filesystems of their own, so that a test can fill a disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


class SmallDisks:
    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._mounted: list[Path] = []

    def mount(self, folder: Path) -> None:
        """A skip where it is not permitted, also in CI: nothing that could be installed helps."""
        options = f"size={self._size_bytes},mode=700"
        command = ["mount", "-t", "tmpfs", "-o", options, "holdfast-test", str(folder)]
        try:
            subprocess.run(command, capture_output=True, text=True, check=True)
        except FileNotFoundError:
            pytest.skip("a small disk cannot be made: there is no command mount")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"a small disk cannot be made: {error.stderr.strip()}")
        self._mounted.append(folder)

    def resize(self, size_bytes: int) -> None:
        for each in self._mounted:
            subprocess.run(["mount", "-o", f"remount,size={size_bytes}", each], check=True)

    def unmount(self) -> None:
        while self._mounted:
            # Lazy: it goes when the last file is closed, and a test that fails still cleans up.
            subprocess.run(["umount", "--lazy", self._mounted.pop()], check=True)
