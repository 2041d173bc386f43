"""A seeded simulator that runs the production code of driver and tasks in a world made of faults.

``python -m tests.sim --seed 7 --steps 2000`` runs one world; ``docs/simulator.md`` explains it.

- :mod:`hub`: the scheduler: greenlets, the clock, the random sources, faults and their counts.
- :mod:`kafka`, :mod:`clickhouse`, :mod:`store`, :mod:`spark`, :mod:`checkpoint`: the services behind the ports.
- :mod:`job`: one process that runs the production :class:`~chsink.driver.driver.Driver`.
- :mod:`world`: starts, kills and freezes processes, and has an operator answer their halts.
- :mod:`oracle`: the invariants after every step, and at the end.
- :mod:`campaign`: many worlds, their coverage, and how a failing one is shrunk.
"""

import logging

logging.getLogger("chsink").setLevel(logging.ERROR)  # worlds are full of retries
