"""Nothing that the stranger sends is believed."""

from __future__ import annotations

import pytest

from hopwire.demo.roles import domains_of
from hopwire.demo.stranger import broken_frames, forged_frames
from hopwire.demo.trouble import TROUBLES, trouble_of
from hopwire.errors import WireError
from hopwire.security import Verdict, verify
from hopwire.wire import decode


def test_a_forged_order_is_whole_and_not_believed() -> None:
    message = decode(forged_frames(1))
    assert trouble_of(message.correlation_id) == "forged"
    assert verify(message, domains_of(b"the secret of the shop")) is Verdict.INVALID


def test_no_broken_message_can_be_read_and_they_break_in_several_ways() -> None:
    reasons = set()
    for number in range(1, TROUBLES["broken"].times + 1):
        with pytest.raises(WireError) as caught:
            decode(broken_frames(number))
        reasons.add(caught.value.reason)
    assert len(reasons) > 2
