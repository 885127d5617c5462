"""Objects in a bucket of S3, or of a server that speaks its language: `s3://bucket/prefix`.

An object is one conditional PUT (`If-None-Match: *`), never a multipart upload: a request that is
cut off leaves nothing behind that would have to be cleaned up, and the price is the bound on the
size of an object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from holdfast.blob.port import check_folder, check_name, check_size
from holdfast.blob.retrying import Retrying
from holdfast.errors import AccessDenied, HoldfastError, Missing, Unreachable, UsageError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config, S3Store

T = TypeVar("T")
CONNECT_SECONDS = 5
REQUEST_SECONDS = 60  # see OBJECT_BYTES_MAX
_DENIED = ("401", "403", "AccessDenied")
_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


@dataclass(frozen=True)
class Bucket:
    name: str
    prefix: str = ""
    endpoint: str = ""  # of another server than Amazon's
    region: str = "us-east-1"
    credentials: str = "environment"  # or "instance": those the machine has by itself

    def __str__(self) -> str:
        at = f" at {self.endpoint}" if self.endpoint else ""
        return f"s3://{self.name}{'/' if self.prefix else ''}{self.prefix}{at}"


class S3Blob:
    def __init__(
        self, bucket: Bucket, environment: Mapping[str, str], retrying: Retrying | None = None
    ) -> None:
        try:
            import obstore
        except ImportError:
            raise UsageError(
                "s3:// needs a package that is not installed: pip install 'holdfast[s3]'"
            ) from None
        self._obstore = obstore
        self._bucket = bucket
        self._retrying = retrying or Retrying()
        self._store = _store(bucket, environment)

    @property
    def url(self) -> str:
        return str(self._bucket)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        check_name(name)
        check_size(name, data)

        def attempt(number: int) -> bool:
            try:
                self._obstore.put(self._store, name, data, mode="create", use_multipart=False)
                return True
            except self._obstore.exceptions.AlreadyExistsError as error:
                if _status(error) == "409":
                    raise Unreachable(f"{self.url}: others write {name} too: try again") from None
                # An earlier try may have got through, with its answer lost on the way.
                return number > 0 and self._get(name) == data

        return self._run(name, attempt)

    def get(self, name: str) -> bytes:
        check_name(name)
        return self._run(name, lambda number: self._get(name))

    def _get(self, name: str) -> bytes:
        return bytes(self._obstore.get(self._store, name).bytes())

    def list(self, folder: str = "") -> Iterator[str]:
        folder = check_folder(folder)

        def attempt(number: int) -> list[str]:
            pages = self._obstore.list(self._store, folder or None)
            return sorted(item["path"] for page in pages for item in page)

        return iter(self._run(folder, attempt))

    def delete(self, name: str) -> None:
        check_name(name)

        def attempt(number: int) -> None:
            try:
                self._obstore.delete(self._store, name)
            except FileNotFoundError as error:
                if _is_about_the_bucket(error):
                    raise

        self._run(name, attempt)

    def close(self) -> None:
        pass

    def _run(self, name: str, attempt: Callable[[int], T]) -> T:
        def explained(number: int) -> T:
            try:
                return attempt(number)
            except HoldfastError:
                raise
            except (self._obstore.exceptions.BaseError, FileNotFoundError, OSError) as error:
                raise self._explain(name, error) from None

        return self._retrying.run(explained)

    def _explain(self, name: str, error: Exception) -> HoldfastError:
        status, code = _status(error), _code(error)
        if _is_about_the_bucket(error):
            return UsageError(
                f"{self.url}: there is no bucket {self._bucket.name}: make it, or correct the URL"
            )
        if isinstance(error, FileNotFoundError) or status == "404":
            return Missing(f"{self.url}: there is no {name}")
        if status in _DENIED or code in _DENIED:
            return AccessDenied(
                f"{self.url}: access denied ({code or status}): check {_KEYS}, and what they allow"
            )
        if status.startswith("4") and status not in ("408", "409", "429"):
            return UsageError(
                f"{self.url}: the server refuses ({status} {code}): check bucket, endpoint, region"
            )
        return Unreachable(
            f"{self.url}: {_trouble(error, status)}: check endpoint and network, then try again"
        )


def _store(bucket: Bucket, environment: Mapping[str, str]) -> S3Store:
    from datetime import timedelta

    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    options: ClientConfig = {
        "allow_http": bucket.endpoint.startswith("http:"),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "timeout": timedelta(seconds=REQUEST_SECONDS),
    }
    config = _keys(bucket, environment)
    config["region"] = bucket.region
    if bucket.endpoint:
        config["endpoint"] = bucket.endpoint
    try:
        return S3Store(
            bucket.name,
            prefix=bucket.prefix or None,
            config=config,
            client_options=options,
            # Ours knows which answers are lost and which are refusals.
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=REQUEST_SECONDS)},
        )
    except BaseError as error:
        raise UsageError(f"{bucket}: {str(error).splitlines()[0]}: correct the URL") from None


def _keys(bucket: Bucket, environment: Mapping[str, str]) -> S3Config:
    if bucket.credentials == "instance":
        return {}
    key = environment.get("AWS_ACCESS_KEY_ID")
    secret = environment.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        raise UsageError(
            f"{bucket}: no keys: set {_KEYS}, or add credentials=instance to the URL where the "
            "machine has a role"
        )
    config: S3Config = {"access_key_id": key, "secret_access_key": secret}
    if token := environment.get("AWS_SESSION_TOKEN"):
        config["session_token"] = token
    return config


def _status(error: Exception) -> str:
    found = re.search(r"non-2xx status code: (\d+)", str(error))
    return found.group(1) if found else ""


def _code(error: Exception) -> str:
    """The server's word for it; a deletion goes out as a request for several, which has its own."""
    found = re.search(r"<Code>(\w+)</Code>|\(code: (\w+)\)", str(error))
    return (found.group(1) or found.group(2)) if found else ""


def _is_about_the_bucket(error: Exception) -> bool:
    return _code(error) in ("NoSuchBucket", "InvalidBucketName")


def _trouble(error: Exception, status: str) -> str:
    if status:
        return f"the server answers {status} {_code(error)}".rstrip()
    text = str(error)
    for sign, words in (
        ("dns error", "no machine of that name"),
        ("Connection refused", "nobody listens there"),
        ("TimedOut", "no answer in time"),
        ("timed out", "no answer in time"),
    ):
        if sign in text:
            return f"cannot be reached ({words})"
    return f"cannot be reached ({text.splitlines()[0].rpartition(' - ')[2][:100]})"
