"""Goal: `holdfast check` finds each kind of code that makes two runs differ, where it stands, and
has no word to say about code that only looks like it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.model.fleet import FleetModel
from holdfast.runtime.loading import load_fleet
from holdfast.testing.checking.findings import Finding
from holdfast.testing.checking.static import read_fleet

ROOT = Path(__file__).parents[2]
FRAME = """
from collections import deque
from holdfast import Action, Agent, Context, Event, Fleet, on
{imports}

class Moved(Event):
    x: float = 0.0
    tags: set[str] = set()
    names: list[str] = []

class Low(Action):
    text: str = ""

CACHE = {{}}
NAMES = ["a"]
NUMBERS = iter(range(9))
COUNT = 0
FROZEN = frozenset("ab")
{module}

class Drone(Agent):
    x: float = 0.0
    seen: set[str] = set()
    names: list[str] = []
    table: dict[str, int] = {{}}
    HISTORY = deque([])
    SHARED = []

    @on
    def moved(self, event: Moved, ctx: Context) -> None:
        {body}

{methods}

fleet = Fleet("sample", agents=[Drone])
"""


def load(folder: Path, code: str, name: str = "sample") -> FleetModel:
    file = folder / f"{name}.py"
    file.write_text(code)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    found = module.fleet
    assert isinstance(found, FleetModel)
    # Helpers are followed by their module's name, which has to be there while the code is read.
    sys.modules[name] = module
    return found


def findings(
    folder: Path, body: str, imports: str = "", module: str = "", methods: str = ""
) -> list[Finding]:
    lines = body.replace("\n", "\n        ")
    code = FRAME.format(imports=imports, module=module, methods=methods, body=lines)
    try:
        found, unreadable = read_fleet(load(folder, code))
    finally:
        sys.modules.pop("sample", None)
    assert unreadable == []
    return found


@pytest.mark.parametrize(
    ("imports", "body", "what"),
    [
        # The clock.
        ("import time", "self.x = time.time()", "time.time reads the clock"),
        ("import time as t", "self.x = t.monotonic()", "time.monotonic reads the clock"),
        ("from time import time", "self.x = time()", "time.time reads the clock"),
        ("from time import time as now", "self.x = now()", "time.time reads the clock"),
        ("", "import time\nself.x = time.time()", "time.time reads the clock"),
        ("", "from time import perf_counter as p\nself.x = p()", "perf_counter reads the clock"),
        ("import time", "clock = time.time\nself.x = clock()", "time.time reads the clock"),
        ("import time", "self.names = [str(time.gmtime())]", "time.gmtime reads the clock"),
        ("import datetime", "d = datetime.datetime.now()", "datetime.datetime.now reads"),
        ("from datetime import datetime", "d = datetime.utcnow()", "datetime.utcnow reads"),
        ("from datetime import date as D", "d = D.today()", "datetime.date.today reads"),
        (
            "from datetime import datetime",
            "d = datetime.fromtimestamp(ctx.now)",
            "depends on the time zone",
        ),
        ("import time", "d = time.localtime(ctx.now)", "depends on the time zone"),
        # Chance.
        ("import random", "self.x = random.random()", "random.random is different"),
        ("from random import randint", "self.x = randint(1, 2)", "is different in every run"),
        ("import random\nDICE = random.Random()", "self.x = DICE.random()", "is different"),
        ("import secrets", "self.names = [secrets.token_hex()]", "secrets.token_hex is different"),
        ("import uuid", "self.names = [str(uuid.uuid4())]", "uuid.uuid4 is different"),
        ("from uuid import uuid1", "self.names = [str(uuid1())]", "uuid.uuid1 is different"),
        ("import os", "b = os.urandom(4)", "os.urandom is different"),
        ("", "from numpy import random\nself.x = random.rand()", "numpy.random.rand is different"),
        ("", "import numpy as np\nself.x = np.random.rand()", "numpy.random.rand is different"),
        # Input and output.
        ("", "print(event.x)", "print writes when the event is folded"),
        ("import logging", "logging.info('x')", "logging.info writes"),
        ("import logging\nLOG = logging.getLogger()", "LOG.info('x')", "Logger.info writes"),
        ("import sys", "sys.stderr.write('x')", "sys.stderr.write writes"),
        ("", "open('f').read()", "open is input and output"),
        ("", "self.names = [input()]", "input is input and output"),
        ("import os", "os.remove('f')", "os.remove is input and output"),
        ("import os.path", "os.path.exists('f')", "os.path.exists is input and output"),
        ("import socket", "socket.socket()", "socket.socket is input and output"),
        ("import subprocess", "subprocess.run(['ls'])", "subprocess.run is input and output"),
        ("import urllib.request", "urllib.request.urlopen('u')", "urlopen is input and output"),
        ("", "import requests\nrequests.get('u')", "requests.get is input and output"),
        ("", "import httpx\nhttpx.get('u')", "httpx.get is input and output"),
        ("from pathlib import Path", "Path('f').write_text('x')", "Path.write_text is input"),
        ("from pathlib import Path", "p = Path('f') / 'g'\np.mkdir()", "Path.mkdir is input"),
        ("from pathlib import Path\nP = Path('f')", "P.read_text()", "Path.read_text is input"),
        # Waiting and working beside.
        ("import time", "time.sleep(1)", "time.sleep holds up every agent"),
        ("import threading", "threading.Thread().start()", "threading.Thread starts work"),
        ("import asyncio", "asyncio.run(None)", "asyncio.run"),
        (
            "from concurrent.futures import ThreadPoolExecutor as T",
            "T().submit(len)",
            "ThreadPoolExecutor starts work",
        ),
        # The machine.
        ("import os", "self.names = [os.environ['HOME']]", "os.environ depends on the machine"),
        ("import os", "os.environ.get('HOME')", "os.environ.get depends on the machine"),
        ("import os", "os.getenv('HOME')", "os.getenv depends on the machine"),
        ("import platform", "platform.node()", "platform.node depends on the machine"),
        # Hashes and addresses.
        ("", "self.x = hash(event.names[0])", "hash is different in every process"),
        ("", "self.table[str(id(event))] = 1", "id is different in every process"),
        ("", "self.names.append(f'{self.moved}')", "self.moved holds its address"),
        ("", "self.names.append(str(ctx))", "ctx holds its address"),
        ("THING = object()", "self.names.append(repr(THING))", "THING holds its address"),
    ],
)
def test_forbidden_names_are_found(tmp_path: Path, imports: str, body: str, what: str) -> None:
    found = findings(tmp_path, body, imports)
    assert len(found) == 1, found
    assert what in found[0].what
    assert found[0].subject == "Drone.moved"
    assert found[0].fix


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("global COUNT\nCOUNT += 1", "changes the global COUNT"),
        ("CACHE['x'] = 1", "changes CACHE, which all agents share"),
        ("del CACHE['x']", "changes CACHE"),
        ("CACHE['x'] += 1", "changes CACHE"),
        ("NAMES.append('x')", "changes NAMES"),
        ("CACHE.setdefault('x', []).append(1)", "changes CACHE"),
        ("CACHE['x'].append(1)", "changes CACHE"),
        ("self.x = next(NUMBERS)", "moves NUMBERS on"),
        ("Drone.LIMIT = 3", "changes Drone"),
        ("type(self).LIMIT = 3", "changes type(self).LIMIT"),
        ("self.__class__.LIMIT = 3", "changes self.__class__.LIMIT"),
        ("setattr(type(self), 'LIMIT', 3)", "changes type(self)"),
        ("self.SHARED.append(1)", "changes Drone.SHARED"),
        ("Drone.SHARED.append(1)", "changes Drone.SHARED"),
        ("helped()", "changes the default of its parameter memo in helped, which it calls"),
        ("helped_too()", "changes the default of its parameter memo in helped_too"),
    ],
)
def test_shared_things_that_change_are_found(tmp_path: Path, body: str, what: str) -> None:
    module = "def helped(memo=[]):\n    memo.append(1)\ndef helped_too(memo={}):\n    memo[1] = 1\n"
    found = findings(tmp_path, body, module=module)
    assert len(found) == 1, found
    assert what in found[0].what


@pytest.mark.parametrize(
    "body",
    [
        "for each in {'a', 'b'}:\n    self.names.append(each)",
        "for each in set(event.names):\n    pass",
        "for each in self.seen:\n    pass",
        "for each in event.tags:\n    pass",
        "for each in FROZEN:\n    pass",
        "for each in self.seen | {'x'}:\n    pass",
        "for each in self.seen.union(event.names):\n    pass",
        "for each in self.table.keys() - event.tags:\n    pass",
        "mine = set(event.names)\nfor each in mine:\n    pass",
        "self.names = list(self.seen)",
        "self.names = [each for each in self.seen]",
        "self.table = {each: 1 for each in self.seen}",
        "self.names = [*self.seen]",
        "self.names = list(map(str, self.seen))",
        "self.names.extend(self.seen)",
        "self.names = [','.join(self.seen)]",
        "self.names = [str(self.seen)]",
        "self.names = [f'{self.seen}']",
        "self.names = [self.seen.pop()]",
        "self.names = [next(iter(self.seen))]",
        "for number, each in enumerate(self.seen):\n    pass",
        "ctx.emit(Low(text=''.join(x for x in self.seen)))",
    ],
)
def test_the_order_of_a_set_is_found(tmp_path: Path, body: str) -> None:
    found = findings(tmp_path, body)
    assert len(found) == 1, found
    assert "differs between processes" in found[0].what
    assert found[0].fix == "sort it, as in sorted(…)"


@pytest.mark.parametrize(
    ("imports", "body"),
    [
        # Names that are hidden, and names that only sound alike.
        ("import time", "time = event.x\nself.x = time"),
        ("import time", "for time in (1.0, 2.0):\n    self.x = time"),
        ("", "self.x = ctx.random.random()"),
        ("", "self.x = self.helper.random(event.helper.time())"),
        ("", "print = event.names.append\nprint('x')"),
        ("", "open = 3\nself.x = open"),
        ("", "hash = [1]\nself.x = hash[0]"),
        ("", "class time:\n    pass\ntime.time = 1"),
        ("import time", "f = lambda time: time.time\nself.x = 1.0"),
        ("", "def random() -> float:\n    return 1.0\nself.x = random()"),
        # Pure parts of impure modules.
        ("import time", "self.names = [time.strftime('%H', time.gmtime(ctx.now))]"),
        ("import datetime as d", "d.datetime.fromtimestamp(ctx.now, tz=d.timezone.utc)"),
        ("from datetime import datetime", "d = datetime(2024, 1, 1)"),
        ("import os", "self.names = [os.path.join('a', 'b'), os.sep]"),
        ("import uuid", "self.names = [str(uuid.uuid5(uuid.NAMESPACE_DNS, 'x'))]"),
        ("import urllib.parse", "self.names = [urllib.parse.quote('x')]"),
        ("from pathlib import PurePath", "self.names = [PurePath('a/b').name]"),
        ("import math, json, zlib", "self.x = math.sqrt(2) + zlib.crc32(json.dumps(1).encode())"),
        # Changes of what is our own.
        ("", "self.names.append('x')\nself.table['a'] = 1\nself.seen.add('x')\nself.x += 1"),
        ("", "CACHE = {}\nCACHE['x'] = 1"),
        ("", "names = list(NAMES)\nnames.append('x')"),
        ("", "self.x = CACHE.get('x', 0.0) + len(NAMES) + COUNT"),
        ("", "event.names.append('x')"),
        ("", "count = 0\ndef inner() -> None:\n    nonlocal count\n    count += 1\ninner()"),
        # Sets whose order nobody sees.
        ("", "self.names = sorted(self.seen)"),
        ("", "self.names = sorted(x + 'y' for x in self.seen)"),
        ("", "self.names = sorted([x + 'y' for x in self.seen])"),
        ("", "for each in sorted(self.seen | event.tags):\n    pass"),
        ("", "self.seen = {x for x in self.seen if x}"),
        ("", "self.seen = {*self.seen, 'x'}"),
        ("", "self.x = len(self.seen) + sum(len(x) for x in self.seen)"),
        ("", "if 'x' in self.seen and any(x for x in event.tags):\n    self.x = 1.0"),
        ("", "self.seen |= event.tags\nself.seen.discard('x')"),
        ("", "for each in self.table:\n    self.names.append(each)"),
        ("", "self.names = [event.names.pop()]"),
        ("", "self.seen.update(event.tags)\nself.names = list(sorted(self.seen))"),
        # Texts that say what they are.
        ("", "self.names = [str(event), f'{self.x} {ctx.key}', repr(Drone)]"),
        ("", "ctx.log.info(f'{event}')"),
    ],
)
def test_innocent_code_is_left_alone(tmp_path: Path, imports: str, body: str) -> None:
    assert findings(tmp_path, body, imports) == []


def test_a_finding_is_one_line_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (found,) = findings(tmp_path, "self.x = time.time()", "import time")
    line = 1 + (tmp_path / "sample.py").read_text().splitlines().index(
        "        self.x = time.time()"
    )
    assert str(found) == (
        f"sample.py:{line}:18: Drone.moved: time.time reads the clock of the machine; use ctx.now"
    )


def test_findings_are_sorted_and_named_once(tmp_path: Path) -> None:
    methods = """
    @on(when=lambda self, event: print(3))
    def other(self, event: Other, ctx: Context) -> None:
        self.helped()

    def helped(self) -> None:
        print(1); print(2)
"""
    module = "class Other(Event):\n    pass\n"
    found = findings(tmp_path, "self.helped()\nprint(0)", module=module, methods=methods)
    assert found == sorted(found)
    shown = [(each.subject, each.what.partition(" ")[0]) for each in found]
    assert shown == [
        ("Drone.moved", "print"),
        ("Drone.other (when=)", "print"),
        ("Drone.moved", "print"),
        ("Drone.moved", "print"),
    ]


def test_a_comment_silences_its_line(tmp_path: Path) -> None:
    body = "print(1)  # holdfast: ok\nprint(2)  # holdfast: okay\nprint(3)  #holdfast: ok, tested"
    (found,) = findings(tmp_path, body)
    assert "print(2)" in (tmp_path / "sample.py").read_text().splitlines()[found.line - 1]


def test_what_a_handler_calls_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions, methods, properties, constructors, guards, upcasts, defaults, other modules."""
    (tmp_path / "sample_helpers.py").write_text(
        "import time as clock\nfrom time import time as now\n\n\ndef later() -> float:\n"
        "    return deeper()\n\n\ndef deeper() -> float:\n    return clock.time()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    imports = "import functools, time, msgspec, sample_helpers\nfrom sample_helpers import later"
    module = """
class Helper:
    def __init__(self):
        time.time()
    def used(self):
        time.time_ns()
    def unused(self):
        time.monotonic()

@functools.cache
def cached():
    return time.perf_counter()

def unused():
    return time.time()
"""
    methods = """
    born: float = msgspec.field(default_factory=lambda: time.process_time())

    @property
    def age(self) -> float:
        return time.thread_time()

    @classmethod
    def upcast(cls, old: dict[str, object]) -> dict[str, object]:
        return {"x": time.monotonic_ns()}

    @on(when=lambda self, event: time.perf_counter_ns() > 1)
    def guarded(self, event: Low2, ctx: Context) -> None:
        pass
"""
    module += "\nclass Low2(Event):\n    pass\n"
    body = "helper = Helper()\nhelper.used()\ncached()\nlater()\nself.age\nsample_helpers.now()"
    found = findings(tmp_path, body, imports, module, methods)
    sys.modules.pop("sample_helpers", None)
    assert {(each.subject, each.what.split()[0]) for each in found} == {
        ("Drone.moved", "time.time"),
        ("Drone.moved", "time.time_ns"),
        ("Drone.moved", "time.perf_counter"),
        ("Drone.moved", "time.thread_time"),
        ("Drone.guarded (when=)", "time.perf_counter_ns"),
        ("Drone.upcast", "time.monotonic_ns"),
        ("Drone.born (default)", "time.process_time"),
    }
    in_other_file = [each for each in found if each.file.endswith("sample_helpers.py")]
    assert [each.line for each in in_other_file] == [10]
    assert in_other_file[0].what.endswith("in deeper, which it calls")
    assert sum(each.what.startswith("time.time ") for each in found) == 3


def test_a_module_of_ones_own_may_be_called_like_a_known_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "serial.py").write_text(
        "import time\n\ndef number() -> float:\n    return 1.0\n\n"
        "def late() -> float:\n    return time.time()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert findings(tmp_path, "self.x = serial.number()", "import serial") == []
        (found,) = findings(tmp_path, "self.x = serial.late()", "import serial")
    finally:
        sys.modules.pop("serial", None)
    assert found.what.startswith("time.time reads the clock")


def test_inherited_handlers_and_super_are_read(tmp_path: Path) -> None:
    code = """
import time
from holdfast import Agent, Context, Event, Fleet, on

class Moved(Event):
    pass

class Base(Agent):
    x: float = 0.0

    @on
    def moved(self, event: Moved, ctx: Context) -> None:
        self.track()

    def track(self) -> None:
        pass

class Drone(Base):
    def track(self) -> None:
        super().track()
        self.x = time.time()

fleet = Fleet("sample", agents=[Drone])
"""
    try:
        (found,), _ = read_fleet(load(tmp_path, code))
    finally:
        sys.modules.pop("sample", None)
    assert (found.subject, found.line) == ("Drone.moved", 21)


def test_async_code_of_a_helper_is_found(tmp_path: Path) -> None:
    module = "async def slow():\n    await other()\nasync def other():\n    pass\n"
    found = findings(tmp_path, "slow()", module=module)
    assert [each.what for each in found] == [
        "async code starts work that no commit knows of in slow, which it calls",
    ]


def test_code_without_a_file_is_named(tmp_path: Path) -> None:
    scope: dict[str, object] = {}
    exec(FRAME.format(imports="", module="", methods="", body="pass"), scope)
    fleet = scope["fleet"]
    assert isinstance(fleet, FleetModel)
    assert read_fleet(fleet) == ([], ["Drone.moved"])


@pytest.mark.parametrize("path", ["examples/drones.py", "src/holdfast/demo/fleet.py"])
def test_the_shipped_fleets_are_clean(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    assert read_fleet(load_fleet(str(ROOT / path))) == ([], [])
