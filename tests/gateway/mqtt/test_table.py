"""Goal: the table says plainly which topic is which event; a wrong one is refused in one line that
tells what to write instead.
"""

from pathlib import Path

import pytest

from holdfast.errors import UsageError
from holdfast.gateway.mqtt.address import PASSWORD, parse_broker
from holdfast.gateway.mqtt.table import Classes, Table, read_table

KNOWN = Classes(["Drone"], ["Battery", "CallFailed", "Position"], ["Descend", "Land"])
SEVERAL = KNOWN._replace(agents=["Camera", "Drone"])


def table(tmp_path: Path, text: str, known: Classes = KNOWN) -> Table:
    path = tmp_path / "mqtt.toml"
    path.write_text(text)
    return read_table(str(path), known)


def test_the_usual_table() -> None:
    usual = read_table(None, KNOWN)
    assert usual.filters == ["agents/+/+"]
    rule = usual.action_rule("Drone", "Land")
    assert rule is not None
    assert rule.topic.filled("d-1", "Land") == "agents/d-1/command"
    assert usual.is_ours("agents/d-1/command")
    assert not usual.is_ours("agents/d-1/battery")
    with pytest.raises(UsageError, match=r"several agents \(Camera, Drone\): say in a table"):
        read_table(None, SEVERAL)


def test_a_filter_that_another_covers_is_not_subscribed_twice(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        '[[events]]\ntopic = "fleet/{key}/battery"\nis = "Drone/Battery"\nformat = "msgpack"\n'
        '[[events]]\ntopic = "fleet/{key}/{event}"\nis = "Drone"\n'
        '[[events]]\ntopic = "cameras/{key}"\nis = "Camera/Position"\n'
        "[[actions]]\nof = 'Drone/Land'\ntopic = 'fleet/{key}/now'\nretain = true\n"
        "[[actions]]\nof = 'Drone'\ntopic = 'fleet/{key}/command'\n",
        SEVERAL,
    )
    assert found.filters == ["fleet/+/+", "cameras/+"]
    assert [rule.format for rule in found.events] == ["msgpack", "json", "json"]
    land, other = found.action_rule("Drone", "Land"), found.action_rule("Drone", "Descend")
    assert land is not None
    assert other is not None
    assert (land.retain, other.retain) == (True, False)
    assert found.action_rule("Camera", "Land") is None


def test_a_prefix_of_its_own(tmp_path: Path) -> None:
    found = table(tmp_path, 'prefix = "site-7/drones"\nactions = []\n')
    assert found.filters == ["site-7/drones/+/+"]
    assert found.action_rule("Drone", "Land") is None


EVENTS = '[[events]]\ntopic = "{}"\nis = "{}"\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("events = 7", r"write \[\[events\]\] above each"),
        ("nonsense = 1", "the file has an unknown 'nonsense'"),
        ("[[events]\n", "is no TOML"),
        ('prefix = "a/+/b"', "give words with / between them"),
        (EVENTS.format("a/{key}/x", "Drone/Batery"), "no event 'Batery': did you mean Battery?"),
        (EVENTS.format("a/{key}/x", "Dron/Battery"), "no agent 'Dron': did you mean Drone?"),
        (EVENTS.format("a/{key}/x", "Drone/CallFailed"), "comes from the fleet itself"),
        (EVENTS.format("a/{key}/x", "Drone"), "name the event in one of both"),
        (EVENTS.format("a/{key}/{event}", "Drone/Battery"), "name the event in one of both"),
        (EVENTS.format("a/x", "Drone/Battery"), "{key} has to be in it once"),
        (EVENTS.format("a/{key}/{key}", "Drone/Battery"), "{key} has to be in it once"),
        (EVENTS.format("a/+/{key}", "Drone/Battery"), "'\\+' cannot be a level"),
        (EVENTS.format("a/#/{key}", "Drone/Battery"), "'#' cannot be a level"),
        (EVENTS.format("a//{key}", "Drone/Battery"), "'' cannot be a level"),
        (EVENTS.format("a/x-{key}", "Drone/Battery"), "as whole levels"),
        (EVENTS.format("$SYS/{key}", "Drone/Battery"), "the broker's own"),
        (EVENTS.format("a/{key}", "Drone Battery"), "write Agent, or Agent/Name"),
        (EVENTS.format("a/{key}", "Drone/Battery") + 'format = "xml"', "json, msgpack, cbor"),
        (EVENTS.format("a/{key}", "Drone/Battery") + "seq = 4", "seq is 4: give a text"),
        (EVENTS.format("a/{key}", "Drone/Battery") + "sek = 4", "unknown 'sek': did you mean seq"),
        ('[[events]]\nis = "Drone/Battery"', "topic is missing"),
        (
            EVENTS.format("a/{key}/x", "Drone/Battery")
            + EVENTS.format("a/y/{key}", "Drone/Battery"),
            "would come twice",
        ),
        ('[[actions]]\nof = "Drone/Lnd"\ntopic = "a/{key}"', "no action 'Lnd': did you mean Land?"),
        ('[[actions]]\nof = "Drone"\ntopic = "a/{event}"', "cannot be a level"),
        ('[[actions]]\nof = "Drone"\ntopic = "a/{key}"\nretain = 1', "write true or false"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    complaint = complaint.replace("{", r"\{").replace("}", r"\}")
    with pytest.raises(UsageError, match=complaint) as refused:
        table(tmp_path, text)
    assert "\n" not in str(refused.value) or "TOML" in str(refused.value)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_table(str(tmp_path / "none.toml"), KNOWN)


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = parse_broker("mqtt://broker")
    assert (plain.host, plain.port, plain.tls, plain.version_5) == ("broker", 1883, False, True)
    assert plain.named("my fleet") == "holdfast-my_fleet"
    secret = tmp_path / "secret"
    secret.write_text("pass word\n")
    whole = parse_broker(
        f"mqtts://me%40home@[::1]:99?version=3.1.1&client_id=b-1&keepalive=9&receive_max=7"
        f"&session_seconds=60&ca=ca.pem&password_file={secret}"
    )
    assert (whole.user, whole.password, whole.place) == ("me@home", "pass word", "mqtts://[::1]:99")
    assert (whole.version_5, whole.client_id, whole.keepalive) == (False, "b-1", 9)
    assert (whole.receive_max, whole.session_seconds, whole.ca) == (7, 60, "ca.pem")
    assert "pass word" not in repr(whole)
    monkeypatch.setenv(PASSWORD, "other")
    assert parse_broker("mqtt://me@broker").password == "other"
    assert parse_broker("mqtt://broker").password == ""


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("broker:1883", "the scheme 'broker' is none of MQTT"),
        ("http://broker", "the scheme 'http'"),
        ("mqtt://", "names no host"),
        ("mqtt://broker:many", "host or port cannot be read"),
        ("mqtt://me:hush@broker", "keep the password in a file"),
        ("mqtt://broker/agents", "leave '/agents' out"),
        ("mqtt://broker?versoin=5", "unknown setting 'versoin': known are version"),
        ("mqtt://broker?version=4", "5 or 3.1.1"),
        ("mqtt://broker?receive_max=0", "from 1 to 65535"),
        ("mqtt://broker?keepalive=x", "from 5 to 65535"),
        ("mqtt://broker?client_id=a/b", "letters, digits"),
        ("mqtt://broker?ca=x", "certificates are for mqtts"),
        ("mqtt://broker?password_file=x", "a password without a user"),
        ("mqtt://me@broker?password_file=/nowhere/x", "No such file"),
    ],
)
def test_wrong_urls_are_refused(url: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        parse_broker(url)
    assert "hush" not in str(refused.value)


def test_certificates_that_cannot_be_read() -> None:
    with pytest.raises(UsageError, match=r"certificates /nowhere/ca\.pem cannot be used"):
        parse_broker("mqtts://broker?ca=/nowhere/ca.pem").tls_context()
