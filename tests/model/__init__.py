"""An exhaustive check of the state machine in small worlds: every order of everything, up to a stated bound.

``python -m tests.model`` explores them all; ``docs/simulator.md`` says what they cover and what they cannot.

- :mod:`space`: what a world's state is, as immutable values.
- :mod:`protocol`: the production functions (``statemachine``) under the model's names, remembered, and what a control
  may get wrong.
- :mod:`services`: Kafka, the target's deduplication and the state store, and the invariants that each watches.
- :mod:`ledger`, :mod:`driver`, :mod:`spark`: a driver, its checkpoint and its task attempts, one port call a step.
- :mod:`events`: what happens to them: starts, crashes, time, Kafka, other writers.
- :mod:`model`: a world's bounds.  :mod:`worlds`: all of them.  :mod:`search`: depth first, each state once.
- :mod:`coverage`: what has to be reached.  :mod:`controls`: wrong variants that must be found.
"""
