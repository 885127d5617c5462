"""Goal: a wrong URL of a store gets one line that says what to change; keys are never shown."""

import builtins
from pathlib import Path

import pytest

from holdfast.blob.files import FileBlob
from holdfast.blob.s3 import Bucket
from holdfast.blob.urls import bucket_of, open_blob
from holdfast.errors import UsageError
from tests.servers.seaweed import WRITER


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "use file:PATH or s3://bucket/prefix"),
        ("backup", "unknown store 'backup'"),
        ("gs://bucket", "unknown store"),
        ("file:", "without a folder"),
        ("s3:", "names no bucket"),
        ("s3:///prefix", "names no bucket"),
        ("s3://bucket?port=1", "unknown setting 'port': there are endpoint, region, credentials"),
        ("s3://bucket?endpoint=localhost:1", "begin it with http:// or https://"),
        ("s3://bucket?credentials=mine", "environment or instance"),
        ("s3://bucket/a b", "cannot be the name"),
        ("s3://bucket/a//b", "cannot be the name"),
        ("s3://AKIA:hush@bucket/x", "keys do not belong into a URL"),
        ("ftp://me:hush@host", "unknown store"),
        ("s3://[bucket", "is no URL"),
    ],
)
def test_a_wrong_url_is_refused(url: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_blob(url, environment=WRITER)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "keys", [{}, {"AWS_ACCESS_KEY_ID": "x"}, {**WRITER, "AWS_ACCESS_KEY_ID": ""}]
)
def test_without_keys_nobody_is_asked(keys: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS"):
        open_blob("s3://bucket", environment=keys)


def test_settings_come_from_the_url_then_the_environment() -> None:
    given = {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://there:1"}
    assert bucket_of("s3://b/x/y/", {}) == Bucket("b", "x/y")
    assert bucket_of("s3://b", given) == Bucket("b", "", "http://there:1", "eu-west-1")
    wanted = Bucket("b", "", "https://here", "us-west-2", "instance")
    url = "s3://b?endpoint=https://here/&region=us-west-2&credentials=instance"
    assert bucket_of(url, given) == wanted
    assert str(wanted) == "s3://b at https://here"


def test_a_path_may_be_relative_and_have_slashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in (
        "file:backup",
        "file:./backup",
        f"file:{tmp_path}/backup",
        f"file://{tmp_path}/backup",
    ):
        blob = open_blob(url)
        assert isinstance(blob, FileBlob)
        blob.put_if_absent("a", b"x")
        assert list(open_blob(f"file:{tmp_path / 'backup'}").list()) == ["a"]


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        if name.partition(".")[0] == "obstore":
            raise ImportError(name)
        return usual(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match=r"pip install 'holdfast\[s3\]'"):
        open_blob("s3://bucket", environment=WRITER)
