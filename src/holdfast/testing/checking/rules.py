"""What a handler must not use, by dotted name: the table behind most findings.

Names are those of the standard library and of well-known packages. What is pure in an otherwise
impure module is let through by name.
"""

from __future__ import annotations

import ast
from typing import NamedTuple


class Rule(NamedTuple):
    what: str  # with {} for the name that was used
    fix: str


CLOCK = Rule("{} reads the clock of the machine", "use ctx.now")
RANDOM = Rule("{} is different in every run", "use ctx.random")
FRESH = Rule("{} is different in every run", "use ctx.new_id()")
PRINT = Rule("{} writes when the event is folded, also when it is folded again", "use ctx.log")
INPUT = Rule("{} is input and output", "emit an Action, and let its result come back as an Event")
SLEEP = Rule("{} holds up every agent of the partition", "use ctx.after")
THREADS = Rule("{} starts work that no commit knows of", "emit an Action, or ctx.send to an agent")
MACHINE = Rule("{} depends on the machine and its settings", "let an Event bring the value")
HASH = Rule("{} is different in every process", "compare or store the value itself")
ZONE = Rule("{} depends on the time zone of the machine", "give it one, as in tz=UTC")

_EXACT: dict[str, Rule] = {
    "builtins.open": INPUT,
    "builtins.input": INPUT,
    "builtins.print": PRINT,
    "builtins.hash": HASH,
    "builtins.id": HASH,
    "builtins.breakpoint": INPUT,
    "datetime.datetime.now": CLOCK,
    "datetime.datetime.utcnow": CLOCK,
    "datetime.datetime.today": CLOCK,
    "datetime.date.today": CLOCK,
    "io.open": INPUT,
    "os.environ": MACHINE,
    "os.environb": MACHINE,
    "os.getenv": MACHINE,
    "os.urandom": RANDOM,
    "os.getrandom": RANDOM,
    "sys.argv": MACHINE,
    "sys.stdin": INPUT,
    "sys.stdout": PRINT,
    "sys.stderr": PRINT,
    "time.sleep": SLEEP,
    "asyncio.sleep": SLEEP,
    "time.localtime": ZONE,
    "time.mktime": ZONE,
    "time.tzname": ZONE,
    "time.timezone": ZONE,
    "uuid.uuid1": FRESH,
    "uuid.uuid4": FRESH,
    "uuid.uuid6": FRESH,
    "uuid.uuid7": FRESH,
    "uuid.getnode": MACHINE,
}
_PREFIXES: dict[str, Rule] = {
    "time": CLOCK,
    "random": RANDOM,
    "secrets": RANDOM,
    "numpy.random": RANDOM,
    "logging": PRINT,
    "warnings.warn": PRINT,
    "os": INPUT,
    "shutil": INPUT,
    "tempfile": INPUT,
    "glob": INPUT,
    "fileinput": INPUT,
    "socket": INPUT,
    "socketserver": INPUT,
    "ssl": INPUT,
    "select": INPUT,
    "subprocess": INPUT,
    "requests": INPUT,
    "httpx": INPUT,
    "aiohttp": INPUT,
    "urllib.request": INPUT,
    "urllib3": INPUT,
    "http.client": INPUT,
    "ftplib": INPUT,
    "smtplib": INPUT,
    "sqlite3": INPUT,
    "apsw": INPUT,
    "redis": INPUT,
    "serial": INPUT,
    "paho": INPUT,
    "boto3": INPUT,
    "asyncio": THREADS,
    "threading": THREADS,
    "multiprocessing": THREADS,
    "concurrent.futures": THREADS,
    "sched": SLEEP,
    "platform": MACHINE,
    "getpass": MACHINE,
    "locale": MACHINE,
}
_PURE = {
    "os.fspath",
    "os.path",
    "os.sep",
    "os.linesep",
    "os.PathLike",
    "time.struct_time",
    "time.strptime",
    "time.gmtime",
    "time.strftime",
    "time.asctime",
    "time.ctime",
}
_PURE_PATHS = {
    "basename",
    "commonpath",
    "commonprefix",
    "dirname",
    "isabs",
    "join",
    "normpath",
    "relpath",
    "sep",
    "split",
    "splitext",
}
# How many arguments make them independent of the clock.
_ENOUGH = {"time.gmtime": 1, "time.asctime": 1, "time.strftime": 2}
_PATH_METHODS = {
    "absolute",
    "chmod",
    "cwd",
    "exists",
    "expanduser",
    "glob",
    "home",
    "is_dir",
    "is_file",
    "iterdir",
    "lstat",
    "mkdir",
    "open",
    "read_bytes",
    "read_text",
    "rename",
    "replace",
    "resolve",
    "rglob",
    "rmdir",
    "stat",
    "symlink_to",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
}


def rule_for(name: str, call: ast.Call | None) -> Rule | None:
    """The rule that a use of this name breaks; `call` is the call it is the function of."""
    if name.startswith("os.path."):
        return None if name.split(".")[2] in _PURE_PATHS else INPUT
    if name == "datetime.datetime.fromtimestamp":
        return ZONE if call is not None and _arguments(call) < 2 else None
    if name in _ENOUGH:
        return CLOCK if call is not None and _arguments(call) < _ENOUGH[name] else None
    if name == "time.ctime":
        return ZONE
    if name in _PURE:
        return None
    if name.startswith("pathlib.") and name.rpartition(".")[2] in _PATH_METHODS:
        return INPUT
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in _EXACT:
            return _EXACT[prefix]  # os.environ.get
        # The module itself does nothing yet; what is taken from it does.
        if prefix in _PREFIXES and (length < len(parts) or "." in prefix):
            return _PREFIXES[prefix]
    return None


def _arguments(call: ast.Call) -> int:
    return len(call.args) + len(call.keywords)
