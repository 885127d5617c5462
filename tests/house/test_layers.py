"""Goal: imports point downwards only, and the pure layers know no clock, no chance and no I/O.

An import counts wherever it stands: at the top, inside a function, under TYPE_CHECKING, or as
`import_module("holdfast...")`. Folders of one layer may import each other, but no engine knows
another: what two of them need stands beside the port.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "holdfast"

# From the bottom up. A new folder or module under src/holdfast gets its place here.
LAYERS: list[set[str]] = [
    {"errors"},
    {"model"},
    {"stepping"},
    {"engine", "lease", "blob"},
    {"runtime"},
    {"edge", "mission", "view", "shared"},
    {"__init__"},  # the public names, `from holdfast import Agent`
    {"cli", "gateway", "dashboard", "demo", "testing", "__main__"},
]
PURE = {"model", "stepping"}
IMPURE_MODULES = {
    "apsw",
    "asyncio",
    "multiprocessing",
    "os",
    "random",
    "socket",
    "sqlite3",
    "subprocess",
    "threading",
    "time",
}

# A copy of a partition on Kafka is an inbox and a state of the SQLite engine.
ENGINES_WITHIN_ENGINES = {("kafka", "sqlite")}

RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}


def dynamic_import(node: ast.Call) -> str | None:
    """The module that `import_module("x")` or `__import__("x")` names, if it is a literal."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else None
    called = node.func.id if isinstance(node.func, ast.Name) else called
    if called not in {"import_module", "__import__"} or not node.args:
        return None
    first = node.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def imported_modules(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """Every import as (line, dotted name); `package` is where a relative import starts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # `from holdfast import model` imports a layer, `from holdfast import Agent` a name:
            # the full dotted name lets layer_of tell them apart.
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and (name := dynamic_import(node)):
            yield node.lineno, name


def layer_of(module: str) -> str | None:
    """The part of holdfast that a dotted name belongs to; None for modules of others."""
    parts = module.split(".")
    if parts[0] != "holdfast":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__"


def engine_of(parts: Sequence[str]) -> str | None:
    """The folder of one engine, of ("engine", "sqlite", "inbox"); None for what is beside them."""
    return parts[1] if len(parts) > 2 and parts[0] == "engine" else None


def meddles(file: Path, module: str) -> bool:
    """Whether a file of one engine imports another one."""
    mine, other = engine_of(file.parts), engine_of([*module.split(".")[1:], "name"])
    if mine is None or other in (None, mine) or (mine, other) in ENGINES_WITHIN_ENGINES:
        return False
    return module.startswith("holdfast.") and (SOURCE / "engine" / str(other)).is_dir()


def violations(source: Path) -> list[str]:
    """One line for every import under the package directory `source` that breaks a rule."""
    found = []
    for file in sorted(source.rglob("*.py")):
        path = file.relative_to(source)
        part = path.parts[0].removesuffix(".py")
        if part not in RANK:
            found.append(
                f"{path}: '{part}' has no layer, give it one in tests/house/test_layers.py"
            )
            continue
        package = ["holdfast", *path.parts[:-1]]
        for line, module in imported_modules(
            ast.parse(file.read_text("utf-8"), str(path)), package
        ):
            target = layer_of(module)
            if target is not None and RANK[target] > RANK[part]:
                found.append(f"{path}:{line}: {part} imports {module}, which is above it")
            if meddles(path, module):
                found.append(f"{path}:{line}: an engine imports another one, {module}")
            if part in PURE and module.split(".")[0] in IMPURE_MODULES:
                found.append(f"{path}:{line}: {part} is pure and imports {module}")
    return found


def test_imports_point_downwards() -> None:
    assert list(SOURCE.rglob("*.py")), "nothing was checked"
    assert violations(SOURCE) == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("model/event.py", "from holdfast.errors import UsageError"),
        ("model/event.py", "from ..errors import UsageError"),
        ("model/event.py", "from . import schema"),
        ("model/event.py", "import datetime, zlib, timeit"),
        ("errors.py", "import os"),
        ("engine/sqlite/inbox.py", "import apsw, os\nfrom ...model import keys"),
        ("engine/sqlite/inbox.py", "from ..port import Engine"),
        ("engine/sqlite/inbox.py", "from holdfast.engine import inheritance"),
        ("engine/kafka/mirror.py", "from holdfast.engine.sqlite import segment"),
        ("engine/urls.py", "from holdfast.engine.sqlite.engine import SqliteEngine"),
        ("runtime/worker.py", "import time\nfrom holdfast.engine import port"),
        ("__init__.py", "from holdfast.runtime.live import Live"),
        ("cli/main.py", "from holdfast import Fleet\nfrom holdfast.demo import run"),
        ("demo/fleet.py", "from holdfast import Agent, on"),
    ],
)
def test_allowed_imports_pass(tmp_path: Path, path: str, code: str) -> None:
    write(tmp_path / path, code)
    assert violations(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "code", "complaint"),
    [
        ("errors.py", "import holdfast.model.event", "errors imports holdfast.model.event"),
        ("model/event.py", "from holdfast.engine import port", "model imports"),
        ("model/event.py", "from holdfast import stepping", "model imports holdfast.stepping"),
        ("model/event.py", "from holdfast import Agent", "model imports holdfast.Agent"),
        ("model/event.py", "import holdfast", "model imports holdfast,"),
        ("model/event.py", "from .. import engine", "model imports holdfast.engine"),
        ("model/event.py", "from ..engine.port import Engine", "model imports"),
        ("engine/sqlite/inbox.py", "from ...runtime import worker", "engine imports"),
        ("engine/port.py", "def f():\n    import holdfast.runtime", "port.py:2: engine imports"),
        (
            "stepping/stepper.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from holdfast.cli import x",
            "stepper.py:3: stepping imports holdfast.cli.x",
        ),
        (
            "runtime/worker.py",
            "import importlib\nimportlib.import_module('holdfast.cli.main')",
            "worker.py:2: runtime imports holdfast.cli.main",
        ),
        ("__init__.py", "from .cli.main import main", "__init__ imports holdfast.cli.main.main"),
        (
            "engine/http/view.py",
            "from holdfast.engine.kafka.lines import Address",
            "imports another",
        ),
        ("engine/http/view.py", "from ..kafka import lines", "imports another"),
        ("engine/http/view.py", "from holdfast.engine import kafka", "imports another"),
        ("engine/sqlite/inbox.py", "def f():\n    import holdfast.engine.kafka", "inbox.py:2: an"),
        ("newcomer/thing.py", "", "'newcomer' has no layer"),
        *[("model/rng.py", f"import {name}", "model is pure") for name in sorted(IMPURE_MODULES)],
        ("stepping/stepper.py", "from os.path import join", "stepping is pure"),
        ("stepping/stepper.py", "def f():\n    from time import time", "stepping is pure"),
        ("stepping/stepper.py", "__import__('random')", "stepping is pure"),
    ],
)
def test_forbidden_imports_are_found(tmp_path: Path, path: str, code: str, complaint: str) -> None:
    write(tmp_path / path, code)
    found = violations(tmp_path)
    assert len(found) == 1
    assert complaint in found[0]


def write(file: Path, code: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code + "\n", "utf-8")
