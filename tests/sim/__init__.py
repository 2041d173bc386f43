"""A seeded simulator that runs the production code of driver and tasks in a world made of faults.

``python -m tests.sim --seed 7 --steps 2000`` runs one world; ``docs/simulator.md`` explains it.

- :mod:`hub`: who goes next: greenlets, the clock, the random sources, faults and their counts.
- :mod:`kafka`, :mod:`clickhouse`, :mod:`store`, :mod:`spark`, :mod:`checkpoint`: the services behind the ports.
- :mod:`job`: one process that runs the production :class:`~chsink.batch.driver.Driver`.
- :mod:`world`: processes started, killed and frozen; what the world does to them; what an operator answers.
- :mod:`oracle`: what must hold after every step, and at the end.
- :mod:`campaign`: many worlds, what they reached, and how a failing one is made small.
"""

import logging

logging.getLogger("chsink").setLevel(logging.ERROR)  # retries are what worlds are full of
