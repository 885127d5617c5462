"""Goal: a device can publish for itself only and read its own commands only, the bridge has to say
who it is, and no secret is ever shown.

The files of deploy/mosquitto are used as they are, with the paths of the test.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Live
from tests.cli.commands import holdfast, holdfast_here, refused
from tests.gateway.mqtt.fleets import Drone, Order, fleet
from tests.gateway.mqtt.rig import bridged, eventually, noted, rejected
from tests.servers.certificates import Certificates
from tests.servers.mosquitto import Mosquitto, program, running

DEPLOY = Path(__file__).parents[3] / "deploy" / "mosquitto"
SECRETS = {"bridge": "secret-of-bridge", "d-1": "one", "d-2": "two"}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(SECRETS["bridge"] + "\n")
    return path


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    """With the shipped settings and rights."""
    passwords = tmp_path / "passwords"
    passwords.touch(0o600)
    for user, word in {**SECRETS, "+": "plus", "#": "all", "d-1/x": "slash"}.items():
        add = [program("mosquitto_passwd"), "-b", str(passwords), user, word]
        subprocess.run(add, check=True, capture_output=True)
    shipped = dict(
        line.split(maxsplit=1)
        for line in (DEPLOY / "mosquitto.conf").read_text().splitlines()
        if line and not line.startswith(("#", "listener", "persistence_location"))
    )
    acl = tmp_path / "rights"
    acl.write_text((DEPLOY / "holdfast.acl").read_text())
    acl.chmod(0o600)
    own = {"password_file": passwords, "acl_file": acl}
    with running({**shipped, **own}) as broker:
        yield broker


def login(user: str, word: str | None = None) -> list[str]:
    return ["-u", user, "-P", word or SECRETS[user], "-i", f"client-of-{abs(hash(user))}"]


def query(secret: Path) -> str:
    return f"?password_file={secret}"


def test_a_device_reaches_its_own_agent_only(
    broker: Mosquitto, url: str, live: Live, secret: Path
) -> None:
    with bridged(url, broker, query(secret), user="bridge"):
        broker.pub("agents/d-1/noted", '{"number": 1}', *login("d-1"))
        for version in ("mqttv311", "mqttv5"):
            for topic in ("agents/d-2/noted", "agents/d-2/command", "other"):
                tried = broker.try_pub(topic, '{"number": 2}', "-V", version, *login("d-1"))
                if version == "mqttv5":
                    assert "Not authorized" in tried
        broker.pub("agents/d-2/noted", '{"number": 3}', *login("d-2"))
        eventually("its own", lambda: noted(live, "d-2") == [3])
        assert noted(live, "d-1") == [1]


def test_names_that_would_match_others_get_nowhere(
    broker: Mosquitto, url: str, live: Live, secret: Path, tmp_path: Path
) -> None:
    """A user called + has the pattern agents/+/+, if the broker lets it (CVE-2017-7650)."""
    with bridged(url, broker, query(secret), user="bridge"):
        for name, word in (("+", "plus"), ("#", "all"), ("d-1/x", "slash")):
            broker.try_pub("agents/d-1/noted", '{"number": 1}', *login(name, word))
            broker.try_pub(f"agents/{name}/noted", '{"number": 1}', *login(name, word))
        broker.pub("agents/d-1/noted", '{"number": 7}', *login("d-1"))
        eventually("the rightful one", lambda: noted(live, "d-1") == [7])
    assert all("cannot be a key" in each["reason"] for each in rejected(tmp_path / "data"))


def test_a_device_reads_its_own_commands_only(
    broker: Mosquitto, url: str, live: Live, secret: Path
) -> None:
    listen = [program("mosquitto_sub"), "-p", str(broker.port), "-q", "1", "-W", "20", "-v"]
    spy = subprocess.Popen(
        [*listen, "-t", "agents/+/command", "-t", "agents/d-2/command", *login("d-1")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        eventually("the spy", lambda: broker.did("Sending SUBACK") > 0)
        with bridged(url, broker, query(secret), user="bridge"):
            live.send(Drone, "d-2", Order(what="2"))
            live.send(Drone, "d-1", Order(what="1"))
            assert spy.stdout is not None
            assert spy.stdout.readline().startswith("agents/d-1/command ")
    finally:
        spy.kill()
        spy.communicate()


def test_a_bridge_with_a_wrong_password_is_told_in_one_line(
    broker: Mosquitto, url: str, tmp_path: Path
) -> None:
    with fleet.open(url):
        pass
    wrong = tmp_path / "wrong"
    wrong.write_text("not-the-secret")
    for version in ("5", "3.1.1"):
        place = f"mqtt://bridge@127.0.0.1:{broker.port}?password_file={wrong}&version={version}"
        done = holdfast("bridge", place, "--engine", url, cwd=tmp_path, code=3)
        line = done.stderr
        assert "does not let user 'bridge' in" in line
        assert "check user and password" in line
        assert "not-the-secret" not in line + done.stdout
        assert len(line.splitlines()) == 1, line


def test_the_password_may_be_in_the_environment(
    broker: Mosquitto, url: str, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_MQTT_PASSWORD", SECRETS["bridge"])
    with bridged(url, broker, user="bridge"):
        broker.pub("agents/d-1/noted", '{"number": 1}', *login("d-1"))
        eventually("it", lambda: noted(live, "d-1") == [1])


def test_a_password_in_the_url_is_refused_and_not_shown(url: str, tmp_path: Path) -> None:
    done = holdfast_here("bridge", "mqtt://me:s3cret@host", "--engine", url, cwd=tmp_path, code=2)
    refused(done, "password_file")
    assert "s3cret" not in done.stderr


def test_a_bridge_without_rights_says_which_it_needs(
    broker: Mosquitto, url: str, live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """d-1 may not publish to the command topic of others: the action waits until that is mended."""
    (tmp_path / "one").write_text("one")
    with bridged(url, broker, f"?password_file={tmp_path / 'one'}", user="d-1"):
        live.send(Drone, "d-2", Order(what="1"))
        eventually("the complaint", lambda: "publish a command" in caplog.text)
    assert "commands wait" in caplog.text
    assert "Not authorized" in caplog.text


def test_a_command_that_is_refused_is_tried_again_and_the_others_are_not(
    broker: Mosquitto, url: str, live: Live, tmp_path: Path
) -> None:
    """d-1 may publish to its own command topic."""
    (tmp_path / "one").write_text("one")
    for key in ("d-2", "d-1"):
        live.send(Drone, key, Order(what="1"))
    live.settle()
    with bridged(url, broker, f"?password_file={tmp_path / 'one'}", user="d-1"):
        eventually("three tries", lambda: broker.did("Denied PUBLISH from") >= 3)
    assert broker.stored("agents/d-1/command") == 1, broker.log()


def test_tls_with_certificates_of_both(tmp_path: Path, url: str, live: Live) -> None:
    made = Certificates(tmp_path / "certs")
    device, bridge = made.issue("d-1"), made.issue("bridge")
    server = made.issue("localhost")
    acl = tmp_path / "rights"
    acl.write_text((DEPLOY / "holdfast.acl").read_text())
    acl.chmod(0o600)
    lines = [
        *(f"cafile {made.ca}", f"certfile {server.certificate}", f"keyfile {server.key}"),
        *("require_certificate true", "use_identity_as_username true"),
    ]
    with running({"allow_anonymous": "false", "acl_file": acl}, lines) as broker:
        broker.host, broker.scheme = "localhost", "mqtts"
        files = f"?ca={made.ca}&cert={bridge.certificate}&key={bridge.key}"
        with bridged(url, broker, files):
            words = ["-h", "localhost", "--cafile", str(made.ca)]
            words += ["--cert", str(device.certificate), "--key", str(device.key)]
            broker.pub("agents/d-1/noted", '{"number": 1}', *words)
            assert "Not authorized" in broker.try_pub(
                "agents/d-2/noted", '{"number": 1}', "-V", "mqttv5", *words
            )
            eventually("it", lambda: noted(live, "d-1") == [1])
        stranger = Certificates(tmp_path / "strange").ca
        done = holdfast(
            *("bridge", f"{broker.url}?ca={stranger}", "--engine", url),
            cwd=tmp_path,
            code=3,
        )
        assert re.search("certificate verify failed", done.stderr), done.stderr
        assert len(done.stderr.splitlines()) == 1
