"""One micro-batch for any lander, without knowing Spark: the loop on the driver, and the task on an executor.

- :mod:`loop`: one batch after the other to one lander: when it is opened, and how it ends.
- :mod:`task`: one topic-partition on an executor.  :mod:`reader`: its input, cut into chunks.
- :mod:`confirm`: do the acknowledgements tile what was assigned?
- :mod:`roles`: the Protocols of landers and tasks.  :mod:`model`: batches and acknowledgements.

Nothing here knows where records go.  Landers do: the :mod:`driver <chsink.driver>` of BEFORE and AFTER, and the mirror.
"""
