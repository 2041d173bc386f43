"""The mirror's commit machine: what happens to a range of records between its hand-over and a table's commit.

Read in this order: :mod:`rules` (what a table of rules is), :mod:`units` (what a worker hands over),
:mod:`chain` (which offsets a table holds), :mod:`plan` (which units a commit takes), :mod:`handover` (what a worker may
hand over, and where the group starts), :mod:`rounds` (when a commit is due, and what may be forgotten after it),
:mod:`resolve` (what a person decides after a halt).

The tables in ``docs/mirror.md`` are generated from their rules by :mod:`render`.
"""
