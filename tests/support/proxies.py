"""Proxies on 127.0.0.1 that stand before a real service and fail on demand.

A fault that never fired proves nothing: every proxy counts what it did in ``fired``, and a test asserts it.
"""

from __future__ import annotations

from tests.support.http_proxy import HttpFault, HttpProxy
from tests.support.tcp_proxy import TcpFault, TcpProxy

__all__ = ["HttpFault", "HttpProxy", "TcpFault", "TcpProxy"]
