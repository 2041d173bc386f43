"""What gives out tokens for OAUTHBEARER: an endpoint for tokens and one for the keys that check them, on 127.0.0.1."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa


class TokenServer:
    """Gives a token of ``user`` to the client that knows ``secret``."""

    def __init__(self, user: str, secret: str) -> None:
        self._key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
        self.user = user
        self.login = base64.b64encode(f"{user}:{secret}".encode()).decode()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Without a path: ``/token`` gives tokens, ``/keys`` the keys."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def keys(self) -> dict[str, Any]:
        """A JSON Web Key Set."""
        public = self._key.public_key().public_numbers()
        numbers = {name: _text(n.to_bytes((n.bit_length() + 7) // 8)) for name, n in (("n", public.n), ("e", public.e))}
        return {"keys": [{"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", **numbers}]}

    def token(self) -> dict[str, Any]:
        """A signed token, valid for an hour."""
        now = int(time.time())
        claims = {"sub": self.user, "aud": "kafka", "scope": "kafka", "iat": now, "exp": now + 3600}
        parts = [_text(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT", "kid": "1"}, claims)]
        signature = self._key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        return {"access_token": ".".join([*parts, _text(signature)]), "expires_in": 3600, "token_type": "Bearer"}


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _handler(server: TokenServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(200, server.keys())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            known = self.headers.get("Authorization") == f"Basic {server.login}"
            self._reply(*(200, server.token()) if known else (401, {"error": "invalid_client"}))

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

        def _reply(self, status: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Handler
