"""The gate in front of the page: names of hosts, tokens, methods, headers."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from hopwire.web.guard import COOKIE, HEADERS, Guard, is_loopback

PAGE = "rows of the lake"


def client(token: str = "", host: str = "here") -> TestClient:
    async def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse(PAGE)

    app = Starlette(routes=[Route("/{rest:path}", page)])
    return TestClient(Guard(app, ("here", "::1"), token), base_url=f"http://{host}")


def test_a_request_under_a_name_of_the_page_is_answered() -> None:
    assert client().get("/").text == PAGE
    assert client().get("/", headers={"host": "HERE:8710"}).text == PAGE
    assert client().get("/", headers={"host": "[::1]:8710"}).text == PAGE


@pytest.mark.parametrize(
    "host", ["elsewhere", "here.elsewhere", "", "[::2]", "127.0.0.1", "here@elsewhere", "elsewhere:here"]
)
def test_a_request_under_another_name_is_refused(host: str) -> None:
    answer = client().get("/", headers={"host": host})
    assert (answer.status_code, PAGE in answer.text) == (421, False)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_page_can_only_be_read(method: str) -> None:
    assert client().request(method, "/").status_code == 405


def test_without_the_token_nothing_is_shown() -> None:
    for answer in (
        client("secret").get("/flows"),
        client("secret").get("/flows?token=other"),
        client("secret").get("/flows", headers={"cookie": f"{COOKIE}=other"}),
        client("secret").get("/flows", headers={"cookie": f"{COOKIE}="}),
    ):
        assert (answer.status_code, PAGE in answer.text, "secret" in answer.text) == (401, False, False)


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address() -> None:
    asked = client("secret")
    answer = asked.get("/flows?outcome=lost&token=secret", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/flows?outcome=lost")
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert asked.get("/flows").text == PAGE


def test_every_answer_forbids_what_is_not_of_this_host() -> None:
    for answer in (client().get("/"), client().get("/", headers={"host": "elsewhere"}), client("secret").get("/")):
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in HEADERS["content-security-policy"]


def test_only_this_machine_reaches_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.3.2.1", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "lake.example")] == [False] * 4
