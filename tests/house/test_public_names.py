"""Goal: the public names are these, no more and no fewer; a change of the list is a decision."""

import importlib
from types import ModuleType

import pytest

API = """
    About Action ActionAcknowledged ActionExpired ActionFailed Agent CallFailed Context Event Fleet
    GroundStop GroundStopLifted IssuedAction Length Live Receipt Row View Width call on
"""
ERRORS = """
    HoldfastError
    YourBug DefinitionError SchemaError UsageError NotYet
    TheirBug DamagedData NewerFormat
    TryAgain Backlog Busy TimedOut Rescaling DiskFull Unreachable
    GiveUp Fenced InUse WrongFleet OutdatedCode TooOld OutOfOrder TooManySources ClockJumped
    AskFailed AccessDenied Missing
"""
EXPECTED = {*API.split(), *ERRORS.split()}


def problems(package: ModuleType, expected: set[str]) -> list[str]:
    """What is wrong with the names that `package` gives away."""
    listed: list[str] = list(getattr(package, "__all__", []))
    reachable = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    return [
        *[f"{name}: twice in __all__" for name in sorted(listed) if listed.count(name) > 1],
        *[f"{name}: expected, not in __all__" for name in sorted(expected - set(listed))],
        *[f"{name}: in __all__, not expected" for name in sorted(set(listed) - expected)],
        *[f"{name}: in __all__, does not exist" for name in sorted(set(listed) - reachable)],
        *[f"{name}: reachable, not in __all__" for name in sorted(reachable - set(listed))],
    ]


def test_the_public_names_are_pinned() -> None:
    assert problems(importlib.import_module("holdfast"), EXPECTED) == []


def test_every_error_is_public() -> None:
    errors = importlib.import_module("holdfast.errors")
    root = errors.HoldfastError
    tree = {name for name, value in vars(errors).items() if is_subclass(value, root)}
    assert tree == set(ERRORS.split())


@pytest.mark.parametrize(
    ("names", "listed", "complaints"),
    [
        ({"Agent": 1, "on": 1, "_hidden": 1, "pytest": pytest}, ["Agent", "on"], []),
        ({"Agent": 1}, ["Agent"], ["on: expected, not in __all__"]),
        ({"Agent": 1, "on": 1}, ["Agent", "on", "on"], ["on: twice in __all__"] * 2),
        ({"Agent": 1}, ["Agent", "on"], ["on: in __all__, does not exist"]),
        (
            {"Agent": 1, "on": 1, "x": 1},
            ["Agent", "on", "x"],
            ["x: in __all__, not expected"],
        ),
        ({"Agent": 1, "on": 1, "x": 1}, ["Agent", "on"], ["x: reachable, not in __all__"]),
    ],
)
def test_wrong_names_are_found(
    names: dict[str, object], listed: list[str], complaints: list[str]
) -> None:
    package = ModuleType("package")
    vars(package).update(names, __all__=listed)
    assert problems(package, {"Agent", "on"}) == complaints


def is_subclass(value: object, root: type) -> bool:
    return isinstance(value, type) and issubclass(value, root)
