"""An exhaustive check of the mirror's commit machine in small worlds: every order of everything, up to a stated bound.

``python -m tests.mirror_model`` explores them all; ``docs/simulator.md`` says what they cover and what they cannot.

- :mod:`space`: what a world's state is, as immutable values, and the production values made of them.
- :mod:`rules`: the production functions, and what a control may get wrong.
- :mod:`catalog`: Iceberg tables; at most once, and chain = content.
- :mod:`workers`, :mod:`coordinators`: what they do, one call of Kafka or the catalog a step.
- :mod:`faults`: what happens to them.  :mod:`worlds`: their bounds.  :mod:`search`: breadth first, each state once.
- :mod:`controls`: wrong variants that must be found.

It does not check that a schedule ends, only that every state without a next step is complete.
"""
