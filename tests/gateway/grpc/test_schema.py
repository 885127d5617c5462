"""Goal: the published schema is the one that is served, and its Python messages are made of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.gateway.grpc.service import PROTO, FleetStub
from holdfast.gateway.settings import Bounds
from tests.cli.commands import holdfast_here
from tests.docs.documents import tables_of
from tests.gateway.grpc.dialled import Dialled

SOURCE = Path(__file__).parents[3] / "src"
FOLDER = Path("holdfast", "gateway", "grpc")


def test_the_messages_are_those_that_the_schema_makes(tmp_path: Path) -> None:
    """As `make proto` makes them."""
    words = [f"-I{SOURCE}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    command = [sys.executable, "-m", "grpc_tools.protoc", *words, str(FOLDER / PROTO.name)]
    subprocess.run(command, cwd=SOURCE, check=True, timeout=60)
    for name in ("holdfast_pb2.py", "holdfast_pb2.pyi"):
        made = (tmp_path / FOLDER / name).read_text("utf-8")
        assert (SOURCE / FOLDER / name).read_text("utf-8") == made, "run `make proto`"


def test_the_command_prints_the_schema(tmp_path: Path) -> None:
    printed = holdfast_here("gateway", "--print-proto", cwd=tmp_path).stdout
    assert printed == PROTO.read_text("utf-8")


def test_a_stub_has_the_methods_of_the_schema_and_no_others(yard: Dialled) -> None:
    assert callable(yard.stub.GetState)
    with pytest.raises(AttributeError, match="no method 'Fly': it has Send, SendStream"):
        FleetStub.__getattr__(yard.stub, "Fly")


def test_the_bounds_of_grpc_are_told_with_their_defaults() -> None:
    tables = tables_of((SOURCE.parent / "docs" / "operating.md").read_text("utf-8"))
    told = [
        int(row[1].replace(",", "")) for table in tables for row in table if row[0][:4] == "gRPC"
    ]
    own = Bounds()
    assert told == [
        own.calls_max,
        own.calls_per_connection_max,
        own.send_streams_max,
        own.stream_bytes_max,
        own.stream_unread_bytes_max,
    ]
