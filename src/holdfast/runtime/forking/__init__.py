"""Fork: the recorded past of a fleet, folded again by other code, and what comes out differently.

What is taken from the record, and what is made anew:
- Events from outside and an operator's commands are taken as recorded: place, time, order.
- Agents, messages, timers and expiries are the candidate's. A message that production sent too
  (same sender, receiver and class, at the same time, the n-th of those) takes the place in the
  inbox that its twin had, whatever it says. A timer that the journal has (same agent, name and due
  time) fires where and when the journal says. So unchanged code repeats production exactly.
- A message without a twin arrives MESSAGE_SECONDS after it was sent: behind all that its partition
  took until then, in the order of arrival, then of sending partition and number. A timer that the
  journal does not have fires when it is due, in front of the next thing its partition takes.
- What production had and the candidate does not make leaves a gap; nothing moves up in time.
- `ctx.now` of a recorded input is what production had there, whatever else fires around it.
- A message keeps its order behind earlier ones of the same sender to the same receiver.
- A call is answered by the recorded reply to the same function and arguments of the same agent: at
  its recorded place if the call is open then, else MESSAGE_SECONDS after the call. No function is
  run.
- Events that ended a worker in production are not run here either.

The unit is the partition. Each is folded as far as the messages it waits for are there; nobody
waits for a message whose sender has gone past the time of its twin. All of that is independent of
how partitions are spread over processes, and so is the result (rounds.py says why).

Files: `recorded` reads, `mailbox`, `stepper` and `track` fold one partition, `rounds` makes all of
them agree, `workshop` holds those of one process,
`crew` spreads them over processes, `starting` says where to begin, `comparing` finds what differs,
`outcome` gathers it, `kpis`, `leading`, `report`, `page` and `plots` tell it. `fork` is the way in.

Nothing is written to production, nothing is claimed there; it may go on while this reads.
"""
