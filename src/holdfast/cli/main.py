"""`holdfast`: the group of all commands, each imported when it is called, and the one place where
an error becomes a line on standard error and an exit code.

Exit codes: 0 done, 1 a finding (`doctor`, `check`) or nothing there (`state`), 2 the command or the
program is wrong, 3 anything else that Holdfast refuses, 130 interrupted. A traceback is our bug.
"""

from __future__ import annotations

import importlib
import io
import os
import resource
import sys
from typing import NamedTuple, NoReturn

import click

from holdfast.errors import HoldfastError, NotYet, YourBug

EXIT_YOURS = 2
EXIT_REFUSED = 3
EXIT_INTERRUPTED = 130


class Entry(NamedTuple):
    place: str  # module:attribute
    help: str


COMMANDS = {
    "run": Entry("holdfast.cli.running:run", "Run a fleet: a supervisor and its workers."),
    "gateway": Entry("holdfast.cli.gateway:gateway", "Serve a fleet over HTTP, beside `run`."),
    "token": Entry("holdfast.cli.gateway:token", "Make a token for the gateway."),
    "bridge": Entry(
        "holdfast.cli.bridging:bridge", "Take events from MQTT devices, give them their actions."
    ),
    "send": Entry("holdfast.cli.sending:send", "Send events; returns when they are durable."),
    "ask": Entry("holdfast.cli.sending:ask", "Send one event and print the agent's reply."),
    "state": Entry("holdfast.cli.reading:state", "Show the committed state of agents."),
    "history": Entry("holdfast.cli.reading:history", "Show the inputs of one agent."),
    "actions": Entry("holdfast.cli.reading:actions", "Show the actions the fleet has issued."),
    "query": Entry("holdfast.cli.querying:query", "Ask in SQL what the fleet knows, now or then."),
    "dead-letters": Entry(
        "holdfast.cli.operating:dead_letters", "List, show and redrive events that failed."
    ),
    "pause": Entry("holdfast.cli.operating:pause", "Hold one agent's events back."),
    "resume": Entry("holdfast.cli.operating:resume", "Let a paused agent go on."),
    "paused": Entry("holdfast.cli.operating:paused", "List paused agents and what they hold."),
    "calls": Entry("holdfast.cli.calling:calls", "List open calls, or how functions do."),
    "action": Entry("holdfast.cli.settling:action", "Show what became of one action."),
    "ack": Entry("holdfast.cli.settling:ack", "Record that actions were carried out."),
    "fail": Entry("holdfast.cli.settling:fail", "Record that actions could not be."),
    "override": Entry("holdfast.cli.settling:override", "Have an action issued by hand."),
    "ground-stop": Entry(
        "holdfast.cli.settling:ground_stop", "Hold back the actions of the whole fleet."
    ),
    "compensate": Entry("holdfast.cli.operating:compensate", "Take an issued action back."),
    "diagram": Entry("holdfast.cli.inspecting:diagram", "Draw what the code of a fleet says."),
    "check": Entry("holdfast.cli.checking:check", "Look for what makes two runs differ."),
    "debug": Entry("holdfast.cli.debugging:debug", "Run one recorded event again under pdb."),
    "replay": Entry("holdfast.cli.replaying:replay", "Fold history again, and compare."),
    "fork": Entry("holdfast.cli.forking:fork", "Try other code on the recorded past."),
    "doctor": Entry("holdfast.cli.inspecting:doctor", "Check data, disk, clock and workers."),
    "lag": Entry("holdfast.cli.lagging:lag", "Show what waits in each partition."),
    "metrics": Entry("holdfast.cli.measuring:metrics", "Print all that is measured, once."),
    "profile": Entry("holdfast.cli.profiling:profile", "Draw what a running worker does."),
    "rescale": Entry("holdfast.cli.rescaling:rescale", "Change the number of partitions."),
    "migrate": Entry("holdfast.cli.migrating:migrate", "Bring stored states to new classes."),
    "export": Entry(
        "holdfast.cli.exporting:export", "Copy events, states or actions to files or a database."
    ),
    "view": Entry("holdfast.cli.viewing:view", "Show, list, rebuild and run views."),
    "snapshot": Entry(
        "holdfast.cli.snapshots:snapshot", "Make, list, verify and restore snapshots."
    ),
    "backup": Entry("holdfast.cli.snapshots:backup", "Bring a snapshot and the log elsewhere."),
    "restore": Entry("holdfast.cli.snapshots:restore", "Make a directory of a backup."),
    "simulate": Entry(
        "holdfast.cli.simulating:simulate", "Run a fleet in virtual time, under faults."
    ),
    "demo": Entry("holdfast.demo.command:demo", "A simulated fleet, a kill -9, an audit."),
}
LATER = ("bench",)


class Commands(click.Group):
    """Commands by name, without importing those that are not called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*COMMANDS, *LATER]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in LATER:
            return _later(name)
        entry = COMMANDS.get(name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        try:
            found: click.Command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name is None or not module.startswith(error.name):
                raise
            return _later(name)
        return found

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            context.exit(EXIT_INTERRUPTED)  # quietly, where click would print a word

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])
        with formatter.section("Later releases"):
            formatter.write_text(", ".join(LATER))

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.list_commands(context):
            from difflib import get_close_matches

            close = get_close_matches(name, self.list_commands(context), 1, 0.5)
            meant = f": did you mean {close[0]}?" if close else ""
            raise click.UsageError(f"no command {name!r}{meant}", context)
        return super().resolve_command(context, args)


def _later(name: str) -> click.Command:
    """A command of the design that this release does not have: it says so, whatever follows it."""

    @click.command(
        name,
        help="Comes with a later release.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def command() -> NoReturn:
        raise NotYet(f"`holdfast {name}` comes with a later release")

    return command


def _print_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"holdfast {version('holdfast')}")
        context.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def holdfast() -> None:
    """Durable state machines for fleets of drones, robots and vehicles.

    Data is found through --engine URL, or HOLDFAST_ENGINE, or sqlite:./holdfast-data.
    """


def main() -> NoReturn:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a letter of somebody's data is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    _allow_many_files()
    sys.exit(_run())


def _allow_many_files() -> None:
    """A partition takes some ten files; what we start inherits it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _run() -> int:
    try:
        result = holdfast.main(prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.Abort:
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return EXIT_YOURS
    except click.ClickException as error:
        complain(_click_text(error))
        return EXIT_YOURS
    except HoldfastError as error:
        complain(str(error))
        return EXIT_YOURS if isinstance(error, YourBug) else EXIT_REFUSED
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_REFUSED
    except OSError as error:
        if error.filename is None:
            raise
        complain(f"{error.filename}: {error.strerror}: check the path, its owner and the disk")
        return EXIT_REFUSED


def complain(text: str) -> None:
    """Exactly one line, whatever the text holds."""
    if os.environ.get("HOLDFAST_LOG_FORMAT") == "json":
        from holdfast.runtime import logs

        logs.complain(text)
    else:
        click.echo(f"holdfast: {' '.join(text.split())}", err=True)


def _click_text(error: click.ClickException) -> str:
    text = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{text} (see `{context.command_path} --help`)" if context is not None else text
