"""Goal: folders and S3 do what the blob port says; on S3 with a real server."""

from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.blob.files import FileBlob
from holdfast.blob.port import Blob
from holdfast.blob.urls import open_blob
from holdfast.testing.conformance import BlobConformance
from tests.servers.seaweed import WRITER, Seaweed


class TestFiles(BlobConformance):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.root = tmp_path / "not" / "made"

    def make_blob(self) -> Blob:
        return FileBlob(self.root)


class TestS3(BlobConformance):
    @pytest.fixture(autouse=True)
    def _place(self, seaweed: Seaweed) -> None:
        self.url = seaweed.url(f"kit/{uuid4().hex}")

    def make_blob(self) -> Blob:
        return open_blob(self.url, environment=WRITER)
