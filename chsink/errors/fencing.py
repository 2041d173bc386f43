"""8xx: a newer driver owns the sink."""

from __future__ import annotations

from chsink.errors.entry import fenced

OWNED_BY_ANOTHER = fenced(
    "CHS-801",
    "sink '{sink}' is now owned by {owner}; this driver ({driver}, epoch {epoch}) stops",
    "run only one driver for each sink; a second job needs a sink.name, a sink.checkpoint and tables of its own; if a "
    "`chsink state` command took the sink over, start the job again once you have done what the command asks for",
)
MIRROR_OWNED_BY_ANOTHER = fenced(
    "CHS-803",
    "the mirror of sink '{sink}' is now run by {owner}; this driver ({driver}, epoch {epoch}) stops",
    "let only one driver run this mirror: `chsink mirror status` names the owner; start this one again only if the "
    "owner has stopped",
)
STATE_CHANGED = fenced(
    "CHS-802",
    "the state of {key} was changed by another process",
    "let only one driver run this sink: `chsink status` names the owner; start this one again only if the owner has "
    "stopped",
)
