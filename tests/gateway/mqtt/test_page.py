"""Goal: what docs/mqtt.md shows works as it stands: its fleet, its commands, its tables."""

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

from holdfast.gateway.mqtt.address import SETTINGS
from holdfast.gateway.mqtt.table import Classes, read_table
from tests.cli.commands import Running
from tests.docs.documents import ROOT, blocks_of, files_of, tables_of
from tests.gateway.mqtt.rig import eventually
from tests.servers.mosquitto import program, running

PAGE = (ROOT / "docs" / "mqtt.md").read_text("utf-8")
KNOWN = Classes(["Drone"], ["Battery"], ["Land"])


def test_the_story(tmp_path: Path) -> None:
    (tmp_path / "yard.py").write_text(files_of(PAGE)["yard.py"])
    (story,) = [block for block in blocks_of(PAGE) if block.language == "sh"]
    (shown,) = [block for block in blocks_of(PAGE) if block.language == "json"]
    with running() as broker, Running("yard.py", "--mqtt", broker.url, cwd=tmp_path) as run:
        eventually("subscribed", lambda: broker.did("Sending SUBACK") == 1)
        listen, publish = (_here(line, broker.port) for line in story.lines)
        with subprocess.Popen([*listen, "-C", "1"], stdout=subprocess.PIPE) as listener:
            eventually("listening", lambda: broker.did("Sending SUBACK") == 2)
            subprocess.run(publish, check=True, timeout=120)
            said, _ = listener.communicate(timeout=120)
        assert run.stop() == 0
    got, expected = json.loads(said), json.loads("".join(shown.lines))
    assert got.keys() == expected.keys()
    assert (got["id"], got["type"]) == (expected["id"], expected["type"])
    assert got["expires_at"] - got["issued"] == 30.0


def _here(command: str, port: int) -> list[str]:
    """As it stands, but for the port."""
    name, *words = shlex.split(command.rstrip(" &"))
    return [program(name), "-p", str(port), *words]


def test_the_tables(tmp_path: Path) -> None:
    usual, whole = [block for block in blocks_of(PAGE) if block.language == "toml"]
    paths = []
    for number, block in enumerate((usual, whole)):
        paths.append(tmp_path / f"{number}.toml")
        paths[-1].write_text("\n".join(block.lines))
    shown = read_table(str(paths[0]), KNOWN)
    meant = read_table(None, KNOWN)
    assert shown.filters == meant.filters
    assert [rule.topic.text for rule in shown.actions] == [r.topic.text for r in meant.actions]
    rule = read_table(str(paths[1]), KNOWN).events[0]
    assert (rule.format, rule.seq, rule.source) == ("cbor", "n", "boot")
    assert tomllib.loads(paths[1].read_text())["actions"][0]["retain"] is True


def test_every_setting_of_the_url_is_told() -> None:
    (table,) = [each for each in tables_of(PAGE) if each[0][0] == "setting"]
    told = {name for row in table[1:] for name in re.findall("`([a-z_]+)`", row[0])}
    assert told == set(SETTINGS)
