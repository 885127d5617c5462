"""Goal: whatever is wrong with a command, a program or the data is one line on standard error that
says what and how to mend it, with a non-zero exit and no traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.engine.sqlite.files import PAGE_BYTES
from tests.cli.commands import Running, copied, environment, holdfast, holdfast_here, refused
from tests.cli.fleets import DELIVERY

NOBODY = 65534


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with fleet.py and, in `data`, what a run of it has left. Not to be changed."""
    place = tmp_path_factory.mktemp("stored")
    (place / "fleet.py").write_text(DELIVERY)
    with Running("fleet.py", "--data", "data", cwd=place) as running:
        assert running.stop() == 0
    return place


@pytest.fixture
def place(stored: Path, tmp_path: Path) -> Path:
    """A copy of it that may be changed."""
    return copied(stored, tmp_path / "place")


# ---------------------------------------------------------------- wrong commands


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["send", "Dron/d-1", "Battery"], ["no agent 'Dron'", "did you mean Drone?"]),
        (["ask", "Truck/d-1", "Status"], ["no agent 'Truck'", "there is Drone"]),
        (["state", "drone/d-1"], ["no agent 'drone'", "did you mean Drone?"]),
        (["state", "drones"], ["no agent 'drones'", "did you mean Drone?"]),
        (["history", "Truck/d-1"], ["no agent 'Truck'"]),
        (["pause", "Truck/d-1"], ["no agent 'Truck'"]),
        (
            ["send", "Drone/d-1", "Batery", "percent=9"],
            ["no event 'Batery'", "did you mean Battery? There is also Calibrate, Position"],
        ),
        (
            ["send", "Drone/d-1", "Battery", "percnt=9"],
            ["Battery has no field 'percnt'", "did you mean percent?"],
        ),
        (
            ["send", "Drone/d-1", "Battery", '{"percnt": 9}'],
            ["Battery has no field 'percnt'", "did you mean percent?"],
        ),
        (["send", "Drone/d-1", "Status", "x=1"], ["Status has no field 'x'", "no fields"]),
        (["send", "Drone/d-1", "Battery"], ["needs the field 'percent'"]),
        (["send", "Drone/d-1", "Battery", "percent=low"], ["Battery.percent cannot be 'low'"]),
        (
            ["send", "Drone/d-1", "Battery", '{"percent": [9]}'],
            ["Battery.percent cannot be [9]", "Expected `float`, got `array`"],
        ),
        (["send", "Drone/d-1", "Battery", "9"], ["'9' is no value", "write name=value"]),
        (["send", "Drone/d-1", "Battery", "{9}"], ["is no JSON object"]),
        (["send", "Drone/" + "k" * 129, "Status"], ["cannot be a key", "129 characters"]),
        (["send", "Drone/a/b", "Status"], ["cannot be a key", "contains '/'"]),
        (["send", "Drone", "Status"], ["'Drone' names no agent", "as in Drone/d-1"]),
        (["send", "Drone/d-1", "Status", "--source", "gcs"], ["--source and --seq go together"]),
        (["send", "Drone/d-1", "Status", "--seq", "1"], ["--source and --seq go together"]),
        (["send"], ["send what to whom?"]),
        (["send", "Drone/d-1", "Calibrate", "note=\udcff"], ["a value is no text"]),
        (["send", "Drone/d-1", "Calibrate", '{"note": "\udcff"}'], ["is no JSON object"]),
        (["pause", "Drone/d-1", "--reason", "\udcff"], ["--reason: say why on one line"]),
        (["state", "Drone/d-1", "--after", "soon"], ["'soon' is no receipt"]),
        (["state", "Drone/d-1", "--after", "7:1"], ["receipt 7:1 is of another fleet's data"]),
        (["actions", "--after", "nonsense"], ["cursor 'nonsense' is none of ours"]),
        (["dead-letters", "show", "0.7"], ["no dead letter '0.7'"]),
        (["dead-letters", "redrive"], ["redrive which?"]),
        (["state", "Drone", "--limit", "none"], ["'none' is not a valid integer"]),
        (["state"], ["Missing argument", "see `holdfast state --help`"]),
        (["sned"], ["no command 'sned': did you mean send?"]),
        (["run", "fleet.py", "--port", "http"], ["--port 'http': give 0 to 65535, or none"]),
        (["run", "fleet.py", "--host", "0.0.0.0", "--port", "0"], ["--tokens FILE"]),
        (["run", "fleet.py", "--port", "0", "--tls-cert", "x"], ["go together"]),
        (["gateway", "--port", "none"], ["a gateway alone needs a port"]),
        (["run", "fleet.py", "--workers", "0"], ["0 is not in the range"]),
    ],
)
def test_a_wrong_command(stored: Path, words: list[str], parts: list[str]) -> None:
    done = holdfast_here(*words, cwd=stored, code=2, variables={"HOLDFAST_ENGINE": "sqlite:data"})
    refused(done, *parts)


@pytest.mark.parametrize("words", [["run", "fleet.py"], ["gateway"]])
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("no tokens", "is no file of tokens"),
        ('[gcs]\nrole = "send"\n', "[gcs] needs role and sha256"),
        (f'[gcs]\nrole = "boss"\nsha256 = "{"0" * 64}"\n', "role 'boss': give one of"),
    ],
)
def test_a_file_that_has_no_tokens(
    tmp_path: Path, stored: Path, words: list[str], text: str, part: str
) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    variables = {"HOLDFAST_ENGINE": "sqlite:data"}
    more = ["--port", "0", "--tokens", file]
    done = holdfast_here(*words, *more, cwd=stored, code=2, variables=variables)
    refused(done, str(file), part)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["send", "Dron/d-1", "Battery"], "did you mean Drone?"),
        (["send", "Drone/d-1", "Batery"], "did you mean Battery?"),
        (["send", "Drone/d-1", "Battery", "percnt=9"], "did you mean percent?"),
        (["send", "Drone/d-1", "Battery", "percent=low"], "cannot be 'low'"),
        (["send", "Drone/" + "k" * 129, "Status"], "129 characters; 128 is the most"),
        (["state", "Drone", "--engine", "postgres:x"], "unknown engine 'postgres:x'"),
    ],
)
def test_a_wrong_command_in_a_process_of_its_own(stored: Path, words: list[str], part: str) -> None:
    refused(
        holdfast(*words, cwd=stored, code=2, variables={"HOLDFAST_ENGINE": "sqlite:data"}), part
    )


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        (
            "postgres:x",
            [
                "unknown engine 'postgres:x'",
                "use memory:, sqlite:PATH, kafka://host:port or http://host:port",
            ],
        ),
        ("data", ["unknown engine 'data'"]),
        ("nats://x", ["nats: comes with a later release"]),
        ("kafka://", ["is no broker: write kafka://host:port"]),
        ("sqlite:data?colour=red", ["unknown engine setting 'colour'"]),
        ("sqlite:nowhere", ["nowhere: no fleet here", "holdfast run"]),
        ("sqlite:fleet.py", ["fleet.py: is a file"]),
        ("memory:", ["memory: lives in one process only"]),
    ],
)
def test_a_wrong_engine(stored: Path, url: str, parts: list[str]) -> None:
    refused(holdfast_here("state", "Drone", "--engine", url, cwd=stored, code=2), *parts)


def test_both_names_of_the_engine(stored: Path) -> None:
    words = ["state", "Drone", "--engine", "sqlite:x", "--data", "y"]
    done = holdfast_here(*words, cwd=stored, code=2)
    refused(done, "--engine and --data mean the same")


# ---------------------------------------------------------------- wrong programs


@pytest.mark.parametrize(
    ("program", "parts"),
    [
        (
            DELIVERY.replace("    battery: float = 100.0\n", "    battery: float\n"),
            ["fleet.py:", "Drone.battery has no default"],
        ),
        ("def broken(:\n", ["fleet.py:1", "SyntaxError"]),
        ("import nothing_of_that_name\n", ["fleet.py:1", "ModuleNotFoundError"]),
        ("x = 1\n\ny = 1 / 0\n", ["fleet.py:3", "ZeroDivisionError"]),
        ("x = 1\n", ["no Fleet at top level"]),
        (DELIVERY + '\nother = Fleet("other", agents=[Drone])\n', ["2 fleets at top level"]),
        (
            DELIVERY.replace("agents=[Drone])", "agents=[])"),
            ["fleet delivery has no agents"],
        ),
    ],
)
def test_a_wrong_program(tmp_path: Path, program: str, parts: list[str]) -> None:
    (tmp_path / "fleet.py").write_text(program)
    refused(holdfast_here("run", "fleet.py", "--data", "data", cwd=tmp_path, code=2), *parts)
    assert not (tmp_path / "data").exists()


def test_a_wrong_definition_in_a_process_of_its_own(tmp_path: Path) -> None:
    program = DELIVERY.replace("    battery: float = 100.0\n", "    battery: float\n")
    (tmp_path / "fleet.py").write_text(program)
    done = holdfast("run", "fleet.py", "--data", "data", cwd=tmp_path, code=2)
    line = program[: program.rindex("    battery: float\n")].count("\n") + 1
    refused(done, f"fleet.py:{line}: Drone.battery has no default", "battery: float = 0.0")


def test_no_program(tmp_path: Path) -> None:
    refused(holdfast_here("run", "fleet.py", cwd=tmp_path, code=2), "fleet.py: no such file")
    (tmp_path / "fleet.py").write_text(DELIVERY)
    done = holdfast_here("check", "fleet.py:flet", cwd=tmp_path, code=2)
    refused(done, "'flet' is no Fleet in fleet.py", "there is fleet")
    done = holdfast_here("diagram", "nothing.of.that.name", cwd=tmp_path, code=2)
    refused(done, "ModuleNotFoundError")


# ---------------------------------------------------------------- data and programs that do not fit


def test_data_of_another_fleet(place: Path) -> None:
    (place / "other.py").write_text(DELIVERY.replace('Fleet("delivery"', 'Fleet("other"'))
    done = holdfast("run", "other.py", "--data", "data", cwd=place, code=3)
    refused(done, "holds fleet 'delivery', not 'other'")


def test_classes_that_do_not_fit(place: Path) -> None:
    holdfast("send", "Drone/d-1", "Battery", "percent=9", "--data", "data", cwd=place)
    changed = DELIVERY.replace("percent", "level")
    (place / "fleet.py").write_text(changed)
    done = holdfast("run", "fleet.py", "--data", "data", cwd=place, code=2)
    refused(done, "Battery.percent is stored", "renamed to level?", "upcast")


def test_older_classes_than_those_that_folded(place: Path) -> None:
    newer = DELIVERY.replace('    note: str = ""\n', '    note: str = ""\n    zone: str = ""\n')
    (place / "newer.py").write_text(newer)
    with Running("newer.py", "--data", "data", cwd=place) as running:
        receipt = holdfast("send", "Drone/d-1", "Status", "--data", "data", cwd=place).stdout
        words = ["state", "Drone/d-1", "--after", receipt.strip(), "--data", "data"]
        holdfast(*words, cwd=place)
        assert running.stop() == 0
    done = holdfast("run", "fleet.py", "--data", "data", cwd=place, code=3)
    refused(done, "newer classes have folded here", "run the newer program")


def test_a_program_without_an_agent_that_is_stored(place: Path) -> None:
    with Running("fleet.py", "--data", "data", cwd=place) as running:
        receipt = holdfast("send", "Drone/d-1", "Status", "--data", "data", cwd=place).stdout
        words = ["state", "Drone/d-1", "--after", receipt.strip(), "--data", "data"]
        holdfast_here(*words, cwd=place)
        assert running.stop() == 0
    (place / "other.py").write_text(DELIVERY.replace("Drone", "Plane"))
    done = holdfast("run", "other.py", "--data", "data", cwd=place, code=2)
    refused(done, "Drone agents are stored", "keep the class")


@pytest.mark.parametrize("words", [["run", "fleet.py"], ["state", "Drone"], ["actions"]])
def test_data_of_a_newer_format(place: Path, words: list[str]) -> None:
    connection = apsw.Connection(str(place / "data" / "fleet.db"))
    connection.execute("PRAGMA user_version=99")
    connection.close()
    done = holdfast(*words, "--data", "data", cwd=place, code=3)
    refused(done, "fleet.db: format 99", "install the release of Holdfast that wrote it")


def test_damaged_data(place: Path) -> None:
    (place / "data" / "p000" / "state.db").write_bytes(b"not a database" * 1000)
    done = holdfast("state", "Drone", "--data", "data", cwd=place, code=3)
    refused(done, "state.db: damaged", "holdfast doctor --salvage")


@pytest.mark.parametrize("words", [["run", "fleet.py"], ["state", "Drone"], ["doctor"]])
def test_damage_behind_the_first_page(place: Path, words: list[str]) -> None:
    path = place / "data" / "p000" / "state.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = path.read_bytes()
    path.write_bytes(data[:PAGE_BYTES].ljust(len(data), b"x"))
    done = holdfast(*words, "--data", "data", cwd=place, code=1 if words == ["doctor"] else 3)
    assert "damaged" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_instead_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "fleet.py").write_text(DELIVERY)
    (tmp_path / "data").write_text("a file")
    done = holdfast("run", "fleet.py", "--data", "data", cwd=tmp_path, code=2)
    refused(done, "data: is a file")
    done = holdfast("run", "fleet.py", "--data", "data/inside", cwd=tmp_path, code=None)
    refused(done, "data")


# ---------------------------------------------------------------- permissions

# Everything is imported before the privileges go: a checkout may be readable by its owner only.
_AS_NOBODY = f"""
import os, sys, holdfast.cli.running, holdfast.cli.reading, holdfast.cli.sending
from holdfast.cli.main import main
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
main()
"""


def without_privileges(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    if os.geteuid() != 0:
        return holdfast(*words, cwd=cwd, code=None)
    return subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, *map(str, words)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def shared_place(stored: Path) -> Iterator[Path]:
    """A copy that everybody on this machine can reach, unlike the folders pytest makes."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
    folder.chmod(0o755)
    copied(stored / "data", folder / "data")
    shutil.copy(stored / "fleet.py", folder / "fleet.py")
    (folder / "fleet.py").chmod(0o644)
    yield folder
    for path in (folder / "data", *(folder / "data").rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("folder_mode", "files_mode"),
    [(0o555, 0o644), (0o000, 0o644), (0o777, 0o444), (0o777, 0o000)],
    ids=["no writing", "no entry", "files to read", "files of others"],
)
def test_no_permission(shared_place: Path, folder_mode: int, files_mode: int) -> None:
    data = shared_place / "data"
    for path in data.rglob("*"):
        path.chmod(0o777 if path.is_dir() else files_mode)
    data.chmod(folder_mode)
    for words in (["send", "Drone/d-1", "Status"], ["state", "Drone"], ["run", "fleet.py"]):
        done = without_privileges(*words, "--data", data, cwd=shared_place)
        refused(done, str(data), "check")
