"""Two clusters of three processes, two gateways each: questions under load while gateways are killed or stopped."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.node.test_joining_processes import PATIENCE_SECONDS, Process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
LOAD_SECONDS, LONG_SECONDS = 3.0, 6.0
LONGEST_SECONDS = 40.0  # of a question with a timeout of 20 s, on a machine that is busy


class Child(Process):
    """A node with its two addresses."""

    def __init__(self, **settings: Any) -> None:
        super().__init__("-m", "tests.node.partner_child", json.dumps(settings))
        self.uri, self.border = self.uri.split()

    def hear(self) -> Any:
        return json.loads(super().hear())

    def do(self, order: str) -> Any:
        self.say(order)
        return self.hear()

    def wait_for(self, order: str, value: Any) -> None:
        began = time.monotonic()
        while (found := self.do(order)) != value:
            assert time.monotonic() - began < PATIENCE_SECONDS, (order, found)


class Networks:
    """Each network has a member and two gateways; `shop` takes orders of `acme`."""

    def __init__(self, stack: ExitStack) -> None:
        def child(**settings: Any) -> Child:
            made = Child(**settings)
            stack.callback(made.end)
            return made

        partner: dict[str, Any] = {"name": "acme", "export": ["orders.*"]}
        self.desk = child(join=[], is_host=True)
        self.lenders = [child(join=[self.desk.uri], partner=partner) for _ in range(2)]
        doors = [lender.border for lender in self.lenders]
        partner = {"name": "shop", "gateways": doors, "import_": ["orders.*"]}
        self.asker = child(join=[])
        self.borrowers = [child(join=[self.asker.uri], partner=partner) for _ in range(2)]
        self.asker.wait_for("handlers", 2)


@pytest.fixture
def load_seconds(is_long: bool) -> float:
    """How long the asker asks without a pause."""
    return LONG_SECONDS if is_long else LOAD_SECONDS


@contextmanager
def networks() -> Iterator[Networks]:
    with ExitStack() as stack:
        yield Networks(stack)


def check(found: dict[str, Any], desk: Child) -> None:
    """Nothing hangs, nothing that was answered was lost, and what was sent until it was answered was answered."""
    print({name: value for name, value in found.items() if name != "acknowledged"})
    assert found["open"] == 0
    assert found["longest"] < LONGEST_SECONDS
    assert {*found["acknowledged"]} <= {*desk.do("taken")}
    assert not [end for end in found["ends"] if end.startswith("insisted")]
    assert found["ends"]["answered"] > 20


@pytest.mark.parametrize("side", ["lenders", "borrowers"])
def test_gateway_is_killed_under_load_and_no_promise_hangs(side: str, load_seconds: float) -> None:
    with networks() as both:
        both.asker.say(f"load {load_seconds}")
        while len(both.desk.do("taken")) < 50:  # the load has begun
            pass
        getattr(both, side).pop().end()
        check(both.asker.hear(), both.desk)
        both.asker.wait_for("handlers", 1 if side == "borrowers" else 2)
        assert both.asker.do("load 0.5")["ends"].keys() == {"answered"}


def test_gateway_that_stands_still_for_ten_seconds_keeps_nobody_waiting_for_ever(load_seconds: float) -> None:
    with networks() as both:
        both.asker.say(f"load {load_seconds}")
        while len(both.desk.do("taken")) < 50:
            pass
        both.lenders[0].tell(signal.SIGSTOP)
        found = both.asker.hear()
        both.lenders[0].tell(signal.SIGCONT)
        check(found, both.desk)
        both.asker.wait_for("handlers", 2)


def test_domain_that_is_taken_off_under_load_is_gone_at_once_and_comes_back(load_seconds: float) -> None:
    with networks() as both:
        both.asker.say(f"load {load_seconds}")
        while len(both.desk.do("taken")) < 50:
            pass
        assert [lender.do('allow ["invoices.*"]') for lender in both.lenders] == [0, 0]
        for borrower in both.borrowers:
            borrower.wait_for("imports", 0)
        for lender in both.lenders:
            lender.do('allow ["orders.*"]')
        found = both.asker.hear()
        check(found, both.desk)
        both.asker.wait_for("handlers", 2)
