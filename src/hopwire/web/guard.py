"""Who may ask the page, and what a browser may do with it.

- The name of the host in a request must be one that the page was started for. Otherwise a foreign site whose name leads
  to this machine could read the lake through the browser of a reader (DNS rebinding).
- Where others can reach the page, a request needs the token, once in the address; then a cookie has it.
- Only GET and HEAD. The content policy allows nothing but this host, and no script or style within a page.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["COOKIE", "HEADERS", "Guard", "is_loopback"]

COOKIE = "hopwire_token"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    return host in LOOPBACK or host.startswith("127.")


class Guard:
    """The gate in front of all pages."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str], token: str = "") -> None:
        self.app, self.token = app, token
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with a refusal."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = self._refusal(Request(scope))

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await (answer or self.app)(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> PlainTextResponse | RedirectResponse | None:
        if host_of(request.headers) not in self.hosts:
            return PlainTextResponse("this page is not served under that name\n", 421)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("this page can only be read\n", 405, {"allow": "GET, HEAD"})
        if not self.token:
            return None
        if self._is_token(request.query_params.get("token", "")):
            rest = urlencode([(name, value) for name, value in parse_qsl(request.url.query) if name != "token"])
            answer = RedirectResponse(request.url.path + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict", path="/")
            return answer
        if not self._is_token(request.cookies.get(COOKIE, "")):
            return PlainTextResponse(
                "open the address with ?token=... that was printed when the page was started\n", 401
            )
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


def host_of(headers: Headers) -> str:
    """Give the name of the host that a request names, without the port."""
    host = headers.get("host", "").lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
