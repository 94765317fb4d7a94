"""Sends spans to a collector of OpenTelemetry over HTTP (OTLP/HTTP, JSON).

| the collector | what happens |
|---|---|
| is busy, or not there (429, 502, 503, 504, no connection) | asked again, five times in all, with pauses that double |
| says how long to wait | that long, up to half a minute |
| takes a part of the spans | counted, and told in the end |
| refuses | one line, with what it said |

A request that is sent twice does no harm: its spans have the same ids.
"""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from hopwire.errors import DeliveryError, SettingsError

__all__ = ["Collector"]

ATTEMPTS, FIRST_PAUSE, LONGEST_PAUSE = 5, 0.5, 30.0
TIMEOUT = 10.0  # seconds for one answer
PLACE = "/v1/traces"
BUSY = (429, 502, 503, 504)
MAX_ANSWER_BYTES = 64 * 1024


@dataclass
class Collector:
    """A collector at an address; counts the spans that it did not take."""

    url: str
    first_pause: float = FIRST_PAUSE
    rejected: int = 0
    why: str = ""

    def __post_init__(self) -> None:
        self._place = _parsed(self.url)
        self.url = self.url.partition("?")[0]  # what stands behind may be a key, and the address is shown

    def send(self, request: str) -> None:
        """Send one request, or raise a DeliveryError that says why it was not taken."""
        pause, said = self.first_pause, ""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                status, answer, wait = self._post(request)
            except (OSError, http.client.HTTPException) as error:
                said, wait = str(error) or type(error).__name__, 0.0
            else:
                if 200 <= status < 300:
                    return self._note(answer)
                said = f"{status} {_line(answer)}".strip()
                if status not in BUSY:
                    raise DeliveryError("refused", f"{self.url} says {said}")
            if attempt < ATTEMPTS:
                time.sleep(min(LONGEST_PAUSE, max(pause, wait)))
                pause *= 2
        raise DeliveryError("unreachable", f"{self.url} took nothing in {ATTEMPTS} attempts: {said}")

    def _post(self, request: str) -> tuple[int, bytes, float]:
        place = self._place
        kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
        connection = kind(place.hostname or "", place.port, timeout=TIMEOUT)
        try:
            path = (place.path.rstrip("/") or PLACE) + (f"?{place.query}" if place.query else "")
            connection.request("POST", path, request.encode(), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read(MAX_ANSWER_BYTES), _seconds(answer.getheader("Retry-After"))
        finally:
            connection.close()

    def _note(self, answer: bytes) -> None:
        try:
            partial = json.loads(answer or b"{}").get("partialSuccess") or {}
            self.rejected += int(partial.get("rejectedSpans") or 0)
            self.why = str(partial.get("errorMessage") or self.why)
        except (ValueError, AttributeError, TypeError):
            return  # it took them, whatever else it says


def _parsed(url: str) -> SplitResult:
    try:
        place = urlsplit(url)
        is_fine = place.scheme in ("http", "https") and bool(place.hostname) and (place.port or 1) > 0
    except ValueError:
        is_fine = False
    if "@" in url:
        raise SettingsError("--endpoint: names and passwords in an address are not sent; leave them out")
    if not is_fine:
        raise SettingsError(f"--endpoint: found {url!r:.80}, expected http://HOST:PORT or https://HOST:PORT/PATH")
    return place


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdigit() else 0.0


def _line(answer: bytes) -> str:
    return " ".join(answer.decode("utf-8", "replace").split())[:200]
