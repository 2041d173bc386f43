"""Refuses requests that a web page of another origin made a browser send.

A server on this machine is within reach of every page that its user opens.  A browser names such a page in ``Origin``
or, where it leaves that out, calls the request cross-site; and a page whose own name was made to point here still has
that name in ``Host``.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from aiohttp import hdrs, web

from chsink.embedded.clickhouse.exceptions import ACCESS_DENIED, refused

_OWN_SITES: Final = ("same-origin", "none")


def refuse_foreign(request: web.Request) -> None:
    """Raise ClickHouseException 497 (HTTP 403) for a foreign ``Origin``, ``Sec-Fetch-Site`` or ``Host``."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is not None and origin != f"http://{request.host}":
        raise refused(ACCESS_DENIED, "Requests from web pages of another origin are not allowed")
    if request.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES:
        raise refused(ACCESS_DENIED, "Requests from web pages of another site are not allowed")
    if not _is_local(request.host):
        raise refused(ACCESS_DENIED, "The Host header must be localhost or an IP address")


def _is_local(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.lower() == "localhost"
    return True
