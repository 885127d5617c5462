"""The careful fold: one event at a time, each one undone wholly if it fails.

Everything rare lives here: timers, expiry, deferred and held events, pauses, dead letters, asks,
messages and an operator's commands. The stepper's fast loop hands over whatever it does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import OutdatedCode, TryAgain
from holdfast.model.effects import Mark, Timer
from holdfast.model.event import Event
from holdfast.model.fates import EXPIRY_NAME, ActionExpired
from holdfast.model.snapshot import snapshot
from holdfast.stepping.cell import HELD_PER_AGENT_MAX, Cell, Held
from holdfast.stepping.commanding import obey
from holdfast.stepping.commit import Answer, Fate, Letter, Record
from holdfast.stepping.fates import Fates
from holdfast.stepping.following import note
from holdfast.stepping.inputs import Answered, Inputs
from holdfast.stepping.noting import Noting
from holdfast.stepping.outputs import Fired
from holdfast.stepping.reasons import place_of, reason_of, trace_of
from holdfast.stepping.settling import SETTLES
from holdfast.stepping.traces import contexts_of

if TYPE_CHECKING:
    from holdfast.stepping.agenda import Entry
    from holdfast.stepping.stepper import Stepper

TRACES_PER_COMMIT_MAX = 256  # of more failures at once the letters tell the place only


class CarefulFold:
    def __init__(self, stepper: Stepper, condemned: str | None = None) -> None:
        self.stepper = stepper
        self._condemned = condemned  # why the first input may not run at all
        self.now = stepper.head.now
        self.position = stepper.head.position
        self.urgent = stepper.head.urgent
        self.number = self.position  # of the input that is folded, in the inbox or in the lane
        self.letters: list[Letter] = []
        self.answers: list[Answer] = []
        self.redriven: list[int] = []
        self.fates = Fates()  # of this commit
        self._committed = Fates()  # those that were looked up
        self._looked_up: set[str] = set()
        self.noting = Noting(stepper)
        self.closed: list[str] = []
        self.fired: list[Fired] = []
        self.gone: dict[tuple[str, str], Record] = {}
        self.fired_max = stepper.fired_max
        self._scheduled = 0
        self._interrupted = False  # by our own trouble, which is not the event's fault
        self.origin = ""  # of the input at hand
        self.popped: list[Entry] = []
        self.expired: list[Cell] = []

    def fates_of(self, id: str) -> list[Fate]:
        """What became of an action so far, in this commit too."""
        if id not in self._looked_up:
            self._look_up([id])
        return [*self._committed.of([id]), *self.fates.of([id])]

    def _look_up(self, ids: list[str]) -> None:
        """All of a frame at once: one by one takes many times as long."""
        wanted = [id for id in dict.fromkeys(ids) if id not in self._looked_up]
        self._committed.add(self.stepper.fates_of(wanted))
        self._looked_up.update(wanted)

    def take_condemned(self) -> str | None:
        """Why this input may not run; the next one may."""
        reason, self._condemned = self._condemned, None
        return reason

    @property
    def condemns(self) -> bool:
        """The next input may not run."""
        return self._condemned is not None

    # Inputs from the inbox.

    def fold(self, inputs: Inputs) -> None:
        self.now = max(self.now, inputs.stamp)
        if inputs.commands is not None:
            self.fates.add(self.noting.new())
            self._look_up([str(one[1]) for one in inputs.commands if one[0] in SETTLES])
        traces = contexts_of(inputs)
        for i, key in enumerate(inputs.keys):
            position = self.number = inputs.first + i
            self.origin = inputs.origin
            if inputs.commands is not None:
                if not obey(self, inputs.agents[i], key, inputs.commands[i]):
                    return  # it goes on in the next commit
            else:
                held = Held(
                    inputs.events[i],
                    position,
                    inputs.event_times[i] if inputs.event_times else inputs.stamp,
                    inputs.senders[i] if inputs.senders else None,
                    inputs.hops[i] if inputs.hops else 0,
                    position if inputs.asks else -1,
                    traces.get(i, ""),
                )
                cell = self.cell(inputs.agents[i], key)
                if inputs.refused:
                    self._bury(cell, held, inputs.refused, "")
                elif inputs.calls is None or self._close(cell, inputs.calls[i], held.event):
                    self.deliver(cell, held)
            self.position = position + 1

    def cell(self, agent: str, key: str) -> Cell:
        kind = self.stepper.kinds.get(agent)
        if kind is None:
            raise OutdatedCode(
                f"an input for {agent}/{key}, but this program has no agent {agent}: run the newer "
                "code that defines it"
            )
        cell = kind.find(key)
        if cell is None:
            # Versions of agents that expire start at the clock, so that one born again under an
            # old key never gives out an id twice.
            born = 0 if kind.expire_after is None else int(self.now * 1e6)
            cell = Cell(kind, key, None, born)
        return cell

    def _close(self, cell: Cell, answered: Answered, event: Event) -> bool:
        """Whether this answers an open call, which is open no more then: whatever becomes of the
        event, it is taken once."""
        call = cell.extras.calls.get(answered.call) if cell.extras is not None else None
        name = type(event).__name__
        if call is None or call[:2] != answered[1:] or name not in (call.reply, "CallFailed"):
            return False
        cell.wake()
        del cell.calls()[answered.call]
        self.closed.append(answered.call)
        self.touch(cell)
        return True

    def touch(self, cell: Cell) -> None:
        cell.kind.touch(cell, self.stepper.batch, self.stepper.touched)
        cell.kind.place(cell)
        if cell.kind.expire_after is not None:
            self.gone.pop((cell.agent_name, cell.key), None)  # born again
            self.stepper.agenda.add(cell.updated + cell.kind.expire_after, cell, None)

    def deliver(self, cell: Cell, held: Held) -> None:
        if cell.extras is not None and cell.extras.paused:
            self._hold(cell, held)
            return
        mode = self._mode(cell)
        self._try(cell, held)
        if cell.kind.defers and self._mode(cell) != mode:
            self.redeliver(cell)

    def _mode(self, cell: Cell) -> object:
        field = cell.kind.definition.mode_field
        return getattr(cell.wake(), field) if field is not None else None

    def _try(self, cell: Cell, held: Held) -> None:
        """Run one event; whatever it did is undone if it fails."""
        context = self.stepper.context
        self.stepper.tries += 1
        agent = cell.wake()
        image = None
        context._given = held.trace
        mark = context._effects.mark()
        self.stepper.carries |= bool(held.trace)
        if self._condemned is not None:
            self._failed(cell, held, self.take_condemned() or "", "")
            return
        try:
            route = cell.kind.routes.get(type(held.event))
            handler = route.choose(agent, held.event) if route is not None else None
            if handler is None:
                self._unhandled(cell, held)
                return
            image = cell.image()
            cell.version += 1
            cell.updated = self.now
            context.now, context.event_time = self.now, held.event_time
            context._sender, context._hops, context._ask = held.sender, held.hops, held.ask
            context._subject = cell
            handler(agent, snapshot(held.event), context)
            cell.packed()
            self._check_outputs(mark)
        except MemoryError:
            raise  # nobody knows whose fault it is: a fresh process finds out
        except (Exception, SystemExit) as error:
            if self._interrupted:
                raise
            whole = len(self.letters) < TRACES_PER_COMMIT_MAX
            trace = trace_of(error) if whole else place_of(error)
            context._effects.rewind(mark)
            context._forget_draws()
            if image is not None:
                cell.revert(image)
            self._failed(cell, held, reason_of(error), trace)
        else:
            self.touch(cell)
            self.schedule()
            self._answer(held, mark[2])
            note(self, cell, held)

    def _check_outputs(self, mark: Mark) -> None:
        """Outputs of a wrong type are the event's failure, not the commit's."""
        effects, codebook = self.stepper.context._effects, self.stepper.codebook
        outputs: list[object] = [e.action for e in effects.actions[mark[0] :]]
        outputs += [m.event for m in effects.messages[mark[1] :]]
        outputs += [event for _, event in effects.replies[mark[2] :]]
        outputs += [armed.timer.event for armed in effects.armed[mark[3] :]]
        try:
            for output in outputs:
                codebook.pack([output], type(output))
            for called in effects.calls[mark[5] :]:
                codebook.know_call(called.function, called.reply)
        except TryAgain:
            self._interrupted = True  # a class met for the first time could not be noted
            raise

    def check_timers(self) -> None:
        """The events of new timers: what cannot be stored must not wait in memory."""
        new = [
            armed.timer.event for armed in self.stepper.context._effects.armed[self._scheduled :]
        ]
        for cls in dict.fromkeys(map(type, new)):
            self.stepper.codebook.pack([event for event in new if type(event) is cls], cls)

    def schedule(self) -> None:
        """New timers to the agenda at once: one may be due before the next frame came."""
        effects, agenda = self.stepper.context._effects, self.stepper.agenda
        for subject, timer in effects.armed[self._scheduled :]:
            assert isinstance(subject, Cell)
            agenda.add(timer.due, subject, timer.name)
        self._scheduled = len(effects.armed)

    def _answer(self, held: Held, first_reply: int) -> None:
        effects = self.stepper.context._effects
        if held.ask < 0:
            return
        replies = [event for ask, event in effects.replies[first_reply:] if ask == held.ask]
        if not replies:
            text = f"no handler replied to {type(held.event).__name__}: call ctx.reply(event)"
            self.answers.append(Answer(held.ask, self.now, "silent", text, 0, b""))
            return
        codebook = self.stepper.codebook
        schema, row = codebook.id_of(type(replies[0])), codebook.pack_one(replies[0])
        self.answers.append(Answer(held.ask, self.now, "reply", "", schema, row))

    # What becomes of events that are not taken.

    def _unhandled(self, cell: Cell, held: Held) -> None:
        policy = cell.kind.definition.unhandled
        name = type(held.event).__name__
        if policy == "defer":
            self._hold(cell, held)
        elif policy == "dead-letter":
            self._bury(cell, held, f"no handler of {cell.agent_name} takes {name} now", "")
        else:
            self._answer(held, len(self.stepper.context._effects.replies))

    def _hold(self, cell: Cell, held: Held) -> None:
        extras = cell.beside()
        if len(extras.held) >= HELD_PER_AGENT_MAX:
            self._bury(cell, held, f"{HELD_PER_AGENT_MAX} events are held already, the bound", "")
            return
        extras.held.append(held)
        self.touch(cell)

    def _failed(self, cell: Cell, held: Held, error: str, trace: str) -> None:
        if cell.kind.definition.on_error == "pause":
            extras = cell.beside()
            extras.paused = error[:500]
            extras.held.insert(0, held)
            self.touch(cell)
            note(self, cell, held, error)
            return
        self._bury(cell, held, error, trace)

    def _bury(self, cell: Cell, held: Held, error: str, trace: str) -> None:
        codebook = self.stepper.codebook
        sender = (held.sender.agent, held.sender.key) if held.sender else None
        letter = Letter(
            id=self.stepper.head.letters_next + len(self.letters),
            position=held.position,
            now=self.now,
            agent=cell.agent_name,
            key=cell.key,
            schema=codebook.id_of(type(held.event)),
            row=codebook.pack_one(held.event),
            error=error,
            trace=trace,
            event_time=held.event_time,
            sender=sender,
            hops=held.hops,
            ask=held.ask,
        )
        self.letters.append(letter)
        note(self, cell, held, error)
        if held.ask >= 0:
            self.answers.append(Answer(held.ask, self.now, "failed", error, 0, b""))

    def redeliver(self, cell: Cell) -> None:
        """Offer held events again, in order, for as long as that changes anything."""
        progress = True
        while progress and cell.extras is not None and cell.extras.held:
            progress = False
            waiting, cell.extras.held = cell.extras.held, []
            self.origin = "held"
            for i, held in enumerate(waiting):
                mode = self._mode(cell)
                self._try(cell, held)
                extras = cell.beside()
                if extras.paused:
                    extras.held += waiting[i + 1 :]
                    break
                if self._mode(cell) != mode:
                    # A new mode may take what an earlier one deferred: start over in order.
                    extras.held += waiting[i + 1 :]
                    progress = True
                    break
            self.touch(cell)

    # Timers and expiry: inputs that come from no inbox.

    def fire_due(self, until: float, most: int, idle: bool = False) -> None:
        """Fire what is due. In front of a waiting input a timer fires at the time it was due;
        when nothing waits it fires at the clock."""
        agenda = self.stepper.agenda
        while len(self.fired) < most and (entry := agenda.pop_due(until)) is not None:
            self.popped.append(entry)
            now = max(self.now, until if idle else entry.due)
            if entry.name is None:
                self._expire(entry, now)
            else:
                self._fire(entry, entry.name, now, until)

    def _fire(self, entry: Entry, name: str, now: float, until: float) -> None:
        cell = entry.cell
        timer = cell.extras.timers.get(name) if cell.extras is not None else None
        if timer is None:
            return  # cancelled, or left by an undone event
        if timer.due > entry.due:
            self.stepper.agenda.add(timer.due, cell, name)  # put off
            return
        if timer.period and cell.beside().paused:
            return  # what a pause makes it miss is one firing, after it
        again = 0.0
        if timer.period:
            # Periods that nobody saw are skipped, whether the clock or a waiting frame shows it.
            periods = int((until - timer.due) / timer.period) + 1
            again = timer.due + periods * timer.period
        self.ring(cell, timer, now, again)

    def ring(self, cell: Cell, timer: Timer, now: float, again: float) -> None:
        name = timer.name
        self.now = now
        cell.wake()
        timers = cell.timers()
        if timer.period:
            timers[name] = timer._replace(due=again)
            self.stepper.agenda.add(again, cell, name)
        else:
            del timers[name]
        agent, key = cell.agent_name, cell.key
        fired = Fired(self.position, agent, key, name, timer.due, now, timer.event, again)
        self.fired.append(fired)
        self.touch(cell)
        if isinstance(timer.event, ActionExpired) and name.startswith(EXPIRY_NAME):
            expired = timer.event
            self.fates.add([Fate(expired.action, key, now, "", "expired", "", expired.name)])
        self.deliver(cell, Held(timer.event, self.position, timer.due, None, 0, -1))

    def _expire(self, entry: Entry, now: float) -> None:
        cell = entry.cell
        kind = cell.kind
        assert kind.expire_after is not None
        if kind.cells.get(cell.key) is not cell and kind.paused.get(cell.key) is not cell:
            return  # gone already
        if cell.extras:
            return  # paused, or with timers or held events: whatever ends that looks again
        due = cell.updated + kind.expire_after
        if due > entry.due:
            self.stepper.agenda.add(due, cell, None)  # put off by later events
            return
        self.leave(cell, due, now)

    def leave(self, cell: Cell, due: float, now: float) -> None:
        kind = cell.kind
        self.now = now
        self.expired.append(cell)
        del kind.cells[cell.key]
        if cell.batch == self.stepper.batch:
            self.stepper.touched.remove(cell)
        self.fired.append(Fired(self.position, cell.agent_name, cell.key, "", due, now, None))
        self.gone[cell.agent_name, cell.key] = Record(
            cell.agent_name, cell.key, cell.version, kind.schema, b"", b"", now
        )
