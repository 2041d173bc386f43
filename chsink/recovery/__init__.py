"""What a person may do to the state: show it, decide about a range in doubt, reset it, rebuild what was lost.

Rules:
- A change is shown before it is made, and made only to the record that was shown.
- Whoever changes state owns the sink first: the claim fences a driver that still runs, so that it can write no more.
- A guess is refused; the refusal says what would have to be known.

The records' changes themselves are pure functions of :mod:`chsink.statemachine.writes`.
"""
