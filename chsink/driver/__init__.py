"""The lander of BEFORE and AFTER, for a target that forgets tokens: decide, settle, announce, land, confirm.

- :mod:`driver`: one batch.  :mod:`lanes`: several tables of one topic: a driver for each lane, on one ledger.
- :mod:`round_plan` and :mod:`pace`: how much of a batch at once.  :mod:`take_up`: what precedes a range sent again.
- :mod:`ledger`: owns the state rows: claims the epoch, writes BEFORE and AFTER, resolves unknown outcomes.
- :mod:`recheck`: does Kafka still hold it?  :mod:`deleted_offsets`: what it deleted is given up, if the job says so.
- :mod:`roles`: assignments, and the Protocols of targets and observers.  :mod:`halts`: several halts as one.

Everything outside is reached through :mod:`chsink.ports`, so that the simulator runs this very code.
"""
