"""From a blob URL to a blob store: `file:PATH`, `s3://bucket/prefix?endpoint=…&region=…`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from holdfast.blob.files import FileBlob
from holdfast.blob.port import PATIENCE_SECONDS, Blob, check_folder
from holdfast.blob.retrying import Retrying
from holdfast.blob.s3 import Bucket, S3Blob
from holdfast.errors import UsageError

_SETTINGS = ("endpoint", "region", "credentials")


def open_blob(
    url: str,
    *,
    environment: Mapping[str, str] = os.environ,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Blob:
    """Nothing is asked of the store yet: what is wrong with it is said by the first call."""
    scheme, colon, rest = url.partition(":")
    if colon and scheme == "file":
        path = unquote(rest.removeprefix("//"))
        if not path:
            raise UsageError("file: without a folder: use file:PATH")
        return FileBlob(Path(path))
    if colon and scheme == "s3":
        return S3Blob(bucket_of(url, environment), environment, Retrying(patience_seconds))
    raise UsageError(f"unknown store {_without_keys(url)!r}: use file:PATH or s3://bucket/prefix")


def bucket_of(url: str, environment: Mapping[str, str]) -> Bucket:
    shown = _without_keys(url)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UsageError(f"{shown!r} is no URL: use s3://bucket/prefix") from None
    if parts.username is not None or "@" in parts.netloc:
        raise UsageError(
            f"{shown}: keys do not belong into a URL: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY"
        )
    if not parts.netloc:
        raise UsageError(f"{shown!r} names no bucket: use s3://bucket/prefix")
    settings = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in settings:
        if name not in _SETTINGS:
            raise UsageError(f"{shown}: unknown setting {name!r}: there are {', '.join(_SETTINGS)}")
    endpoint = settings.get("endpoint", environment.get("AWS_ENDPOINT_URL", ""))
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise UsageError(f"{shown}: endpoint={endpoint}: begin it with http:// or https://")
    credentials = settings.get("credentials", "environment")
    if credentials not in ("environment", "instance"):
        raise UsageError(f"{shown}: credentials={credentials}: environment or instance")
    return Bucket(
        parts.netloc,
        check_folder(unquote(parts.path).strip("/")),
        endpoint.rstrip("/"),
        settings.get("region") or environment.get("AWS_REGION") or "us-east-1",
        credentials,
    )


def _without_keys(url: str) -> str:
    """For messages: they end in logs."""
    scheme, slashes, rest = url.partition("://")
    _, at, after = rest.rpartition("@")
    return f"{scheme}{slashes}…@{after}" if at else url
