"""An S3 server on this machine, in a process of its own: moto's, behind a door that counts requests and can refuse.

GET  /_door           what was asked since the last look: a list of [method, path]
PUT  /_door           {"after": 10, "code": "ExpiredToken"}: refuse with 403 from the tenth request on; {} takes all
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import urllib.request
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "never-seen-anywhere",
    "AWS_DEFAULT_REGION": "us-east-1",
}
REFUSAL = "<?xml version='1.0'?><Error><Code>{}</Code><Message>refused by a test</Message></Error>"


class S3Server:
    """The server, as tests see it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.s3_server"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self._buckets = 0

    @property
    def environment(self) -> dict[str, str]:
        return {**ENVIRONMENT, "AWS_ENDPOINT_URL": self.url}

    def new_bucket(self) -> str:
        self._buckets += 1
        self._ask("PUT", f"/bucket-{self._buckets}")
        return f"s3://bucket-{self._buckets}"

    def asked(self) -> list[tuple[str, str]]:
        """Give what was asked since the last look."""
        return [(method, path) for method, path in json.loads(self._ask("GET", "/_door"))]

    def refuse(self, code: str = "", after: int = 0) -> None:
        """Refuse requests after so many more; without a code all are taken again."""
        self._ask("PUT", "/_door", json.dumps({"after": after, "code": code}).encode())

    def _ask(self, method: str, path: str, content: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"{self.url}{path}", method=method, data=content)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


class _Door:
    """The application that stands before the server's."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._asked: list[tuple[str, str]] = []
        self._left, self._code = 0, ""

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path == "/_door":
            return self._ordered(method, environ, start)
        self._asked.append((method, path))
        self._left -= 1
        if self._code and self._left < 0:
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [REFUSAL.format(self._code).encode()]
        found: Iterable[bytes] = self._application(environ, start)
        return found

    def _ordered(self, method: str, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        start("200 OK", [("Content-Type", "application/json")])
        if method == "GET":
            told, self._asked = self._asked, []
            return [json.dumps(told).encode()]
        order = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        self._left, self._code = order["after"], order["code"]
        return [b"{}"]


def main() -> None:
    from moto.core import serialize
    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import make_server

    # a list of keys would parse the same times again and again, and cost more than all other requests together
    times = vars(serialize)
    times["parse_to_aware_datetime"] = cache(times["parse_to_aware_datetime"])
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # moto's own dispatcher looks at 170 directories before each request, to find out that the service is S3
    server = make_server("127.0.0.1", 0, _Door(create_backend_app("s3")), threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
