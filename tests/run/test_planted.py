"""Goal: a planted bug that is missed is named and fails the run, also where a test was skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = """
import pytest

@pytest.mark.planted("net")
@pytest.mark.parametrize("bug", ["moth-1", "moth-2", "wasp-1", "wasp-2", "bee"])
def test_is_caught(bug):
    assert bug not in {missed}
    if bug in {skipped}:
        pytest.skip("no net")
"""
COMMAND = [sys.executable, "-m", "pytest", "-q", "-p", "tests.run.planted", "-p", "xdist.plugin"]


@pytest.mark.parametrize(
    ("missed", "skipped", "counted"),
    [([], [], (3, 0)), (["wasp-2"], [], (2, 1)), ([], ["bee"], (2, 1))],
)
def test_what_is_missed_is_told(
    missed: list[str], skipped: list[str], counted: tuple[int, int], tmp_path: Path
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = planted: it is\n")
    (tmp_path / "test_net.py").write_text(CASES.format(missed=missed, skipped=skipped))
    path = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
    bare = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [*COMMAND, "-n", "2", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, **bare},
        capture_output=True,
        text=True,
        check=False,
    )
    caught, lost = counted
    assert f"| net | 3 | {caught} | {lost} |" in done.stdout, done.stdout + done.stderr
    names = [line for line in done.stdout.splitlines() if line.startswith("missed: ")]
    assert names == [f"missed: test_net.py::test_is_caught[{name}]" for name in missed + skipped]
    assert done.returncode == bool(lost)
