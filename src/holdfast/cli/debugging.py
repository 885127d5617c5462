"""`debug`: one recorded event of an agent, run again under pdb in the state it met."""

from __future__ import annotations

import pdb

import click

from holdfast.cli.options import agent_and_key, engine_option
from holdfast.cli.output import fields_of, print_fields, text_of
from holdfast.engine.urls import open_engine
from holdfast.errors import UsageError
from holdfast.model.agent import Agent
from holdfast.model.context import Context
from holdfast.model.event import Event
from holdfast.model.handlers import HandlerFunction
from holdfast.model.keys import check_key
from holdfast.stepping.commit import Commit, Record
from holdfast.testing.checking.findings import shown
from holdfast.testing.pictures import Painter, Picture, difference
from holdfast.testing.rerunning import Rerun


@click.command()
@click.argument("agent", metavar="AGENT/KEY")
@click.option(
    "--at-event",
    "number",
    type=int,
    required=True,
    metavar="N",
    help="Its number in `holdfast history`.",
)
@click.option("--fleet", default="fleet.py", show_default=True, help="The code to run.")
@click.option("--from-defaults", is_flag=True, help="Begin with defaults where retention has cut.")
@engine_option
def debug(url: str, agent: str, number: int, fleet: str, from_defaults: bool) -> None:
    """Run one recorded event of an agent again, in the state it met, and stop in its handler.

    The history before it is folded with the code of today. Nothing is written.
    """
    from holdfast.runtime.loading import load_fleet

    name, key = agent_and_key(agent)
    check_key(key)
    if url.startswith("memory:"):
        raise UsageError("memory: keeps no history: give sqlite:PATH")
    loaded = load_fleet(fleet)
    engine = open_engine(url, loaded.name)
    try:
        rerun = Rerun(loaded, engine, name, key)
        _check_number(rerun, number)
        if rerun.cut and not from_defaults:
            _check_whole(Rerun(loaded, engine, name, key))
        for before in range(1, number):
            rerun.fold(before)
        Session(rerun, number).run()
    finally:
        engine.close()


def _check_number(rerun: Rerun, number: int) -> None:
    who, count = f"{rerun.agent}/{rerun.key}", len(rerun.entries)
    if not count:
        raise UsageError(f"{who} has no history here: `holdfast state {rerun.agent}` lists agents")
    if not 1 <= number <= count:
        raise UsageError(f"{who} has no event {number}: `holdfast history {who}` has 1 to {count}")
    if rerun.event_of(number) is None:
        raise UsageError(
            f"{number} of {who} is a command or an expiry, which has no handler: choose an event"
        )


def _check_whole(rerun: Rerun) -> None:
    """The beginning of an inbox is gone; this agent may be younger than that."""
    for number in range(1, len(rerun.entries) + 1):
        rerun.fold(number)
    committed, folded = rerun.committed, rerun.record
    if committed is None or folded is None or committed.version != folded.version:
        raise UsageError(
            f"retention has removed the first events of {rerun.agent}/{rerun.key}: its state "
            f"before this one is not known; --from-defaults begins with defaults instead"
        )


class _Quit(BaseException):
    """Out of the debugger, past everything that would take it for an error of the event."""


class Session:
    def __init__(self, rerun: Rerun, number: int) -> None:
        self._rerun = rerun
        self._number = number
        self._painter = Painter(rerun.bench.codebook)
        self._who = f"{rerun.agent}/{rerun.key}"

    def run(self) -> None:
        rerun = self._rerun
        event, handler = rerun.event_of(self._number), rerun.handler_of(self._number)
        self._print_state("before", rerun.record)
        click.echo(text_of(f"event {self._number}: {event!r}"))
        if handler is None:
            click.echo(f"no handler of {rerun.agent} takes it in this state")
        else:
            place = f"{shown(handler.place.file)}:{handler.place.line}"
            click.echo(f"handler: {rerun.agent}.{handler.name}, {place}")
            self._stop_in(handler.function, type(event))
        try:
            commit = rerun.fold(self._number, in_any_case=True)
        except _Quit:
            click.echo("left before the end: nothing was written")
            return
        if commit is None:
            click.echo("the code of today has not set this timer, so it does not fire")
            return
        self._print_result(commit)

    def _stop_in(self, function: HandlerFunction, event_class: type | None) -> None:
        """Let this one handler run under pdb; routes are shared, so the stepper gets its own."""
        kind = self._rerun.bench.stepper.kinds[self._rerun.agent]
        kind.routes = {**kind.routes, event_class: _StoppingRoute(function)}  # type: ignore[dict-item]

    def _print_state(self, when: str, record: Record | None) -> None:
        if record is None and when == "after":
            click.echo(f"{self._who} is not there after it")
            return
        if record is None:
            codebook, cls = self._rerun.bench.codebook, self._rerun.bench.fleet.agents
            fresh = cls[self._rerun.agent]()
            packed = codebook.pack_one(fresh)
            record = Record("", "", 0, codebook.id_of(type(fresh)), packed, b"", 0.0)
            when = "before (not there yet: its defaults)"
        print_fields(f"{self._who} {when}", self._painter.state(record))

    def _print_result(self, commit: Commit) -> None:
        picture = self._painter.picture(commit)
        self._print_state("after", self._rerun.record)
        for letter in commit.letters:
            click.echo(text_of(f"the event failed and was undone: {letter.error}"))
            picture.outputs.pop("dead letters", None)
        for kind, made in picture.outputs.items():
            for each in made:
                click.echo(_output_text(kind, each))
        if self._number == len(self._rerun.entries):
            self._compare()

    def _compare(self) -> None:
        """With what is committed, which only the last event can be compared to."""
        ours, theirs = self._rerun.record, self._rerun.committed
        found = difference(self._picture(ours), self._picture(theirs))
        if found is None:
            click.echo("this is the last event, and the state equals the committed one")
        else:
            one, other = map(text_of, found.values)
            click.echo(
                f"this is the last event, and {found.what} differs: {one} here, {other} committed"
            )

    def _picture(self, record: Record | None) -> Picture:
        return Picture({self._who: None if record is None else self._painter.state(record)})


def _output_text(kind: str, made: object) -> str:
    """Actions and messages as people read them, everything else as it is."""
    if isinstance(made, list) and (kind == "actions" or kind.startswith("messages")):
        name, values = made[-1]
        what = f"{name} {fields_of(values)}".rstrip()
        return f"action: {what}" if kind == "actions" else f"message to {made[2]}/{made[3]}: {what}"
    return f"{kind}: {text_of(made)}"


class _StoppingRoute:
    """In place of a route: the handler that was chosen, called by the debugger."""

    always = None

    def __init__(self, function: HandlerFunction) -> None:
        self._function = function

    def choose(self, agent: Agent, event: Event) -> HandlerFunction:
        return self._debugged

    def _debugged(self, agent: Agent, event: Event, ctx: Context) -> None:
        debugger = _Debugger(nosigint=True, skip=["holdfast.cli.*", "bdb"])
        debugger.runcall(self._function, agent, event, ctx)
        if debugger.left:
            raise _Quit


class _Debugger(pdb.Pdb):
    left = False  # by `q` or the end of its input: pdb itself says nothing about it

    def set_quit(self) -> None:
        self.left = True
        super().set_quit()
