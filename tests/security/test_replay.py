"""The replay window: nothing comes in twice, and the memory stays small."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hopwire.errors import SettingsError
from hopwire.model.units import NS_PER_SECOND
from hopwire.security import ReplayWindow, ReplayWindows

A, B = ("a", "k"), ("b", "k")


def a_window(capacity: int = 100) -> ReplayWindow:
    return ReplayWindow(100, capacity, skew_ns=10)


def test_a_nonce_comes_in_once() -> None:
    window = a_window()
    assert [window.admit(A, b"1", 1000, 1000), window.admit(A, b"1", 1000, 1001)] == [True, False]


def test_the_same_nonce_under_another_key_is_another_message() -> None:
    window = a_window()
    assert [window.admit(scope, b"1", 1000, 1000) for scope in (A, B, ("a", "k2"))] == [True, True, True]


@pytest.mark.parametrize(
    ("sent_at_ns", "expected"), [(899, False), (900, True), (1000, True), (1010, True), (1011, False)]
)
def test_fresh_is_within_the_window_and_little_ahead_of_the_clock(sent_at_ns: int, expected: bool) -> None:
    assert a_window().admit(A, b"1", sent_at_ns, 1000) is expected


def test_two_messages_of_one_time_come_in_until_the_last_nanosecond_of_the_window() -> None:
    window = a_window()
    assert [window.admit(A, b"1", 900, 900), window.admit(A, b"2", 900, 1000)] == [True, True]


def test_a_full_window_forgets_the_oldest_and_refuses_all_that_is_as_old() -> None:
    window = a_window(capacity=2)
    assert [window.admit(A, bytes([sent]), sent, 100) for sent in (50, 60, 70)] == [True, True, True]
    assert len(window) == 2
    assert not window.admit(A, bytes([50]), 50, 100), "the replay of what was forgotten"
    assert not window.admit(A, b"new", 50, 100), "honest but as old: the price of a bounded memory"
    assert window.admit(A, b"new", 51, 100)
    assert window.admit(B, b"new", 50, 100), "the floor of another key is its own"


def test_a_clock_that_jumps_ahead_and_back_lets_no_replay_in_and_shuts_nobody_out() -> None:
    window = a_window()
    assert window.admit(A, b"1", 1000, 1000)
    assert not window.admit(A, b"2", 1001, 999_999)
    assert not window.admit(A, b"1", 1000, 1002)
    assert window.admit(A, b"2", 1001, 1002)


def test_after_a_restart_a_floor_keeps_out_what_was_sent_before() -> None:
    window = ReplayWindow(100, 10, floor_ns=1000)
    assert [window.admit(A, b"1", 1000, 1005), window.admit(A, b"2", 1001, 1005)] == [False, True]


@pytest.mark.parametrize("sizes", [(0, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_a_window_without_room_is_a_mistake(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(SettingsError, match="a replay window needs window_ns and capacity above 0"):
        ReplayWindow(sizes[0], sizes[1], skew_ns=sizes[2])


def test_its_text_shows_sizes_only() -> None:
    window = a_window()
    window.admit(A, b"nonce", 1000, 1000)
    assert repr(window) == "ReplayWindow(window_ns=100, capacity=100, remembered=1)"


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(-120, 20), st.integers(0, 60)), max_size=60)


@pytest.mark.slow
@settings(deadline=None)
@given(STEPS)
def test_with_room_enough_and_a_steady_clock_it_refuses_nothing_else(steps: list[tuple[int, int, int]]) -> None:
    window, now_ns = a_window(), 1000
    admitted: list[tuple[bytes, int]] = []
    for number, age_ns, passed_ns in steps:
        now_ns += passed_ns
        nonce, sent_at_ns = bytes([number]), now_ns + age_ns
        is_known = any(nonce == known and sent >= now_ns - 100 for known, sent in admitted)
        assert window.admit(A, nonce, sent_at_ns, now_ns) is (-100 <= age_ns <= 10 and not is_known)
        if -100 <= age_ns <= 10 and not is_known:
            admitted.append((nonce, sent_at_ns))


class NeverTwice(RuleBasedStateMachine):
    """Any clock, any order, a tiny memory; the model remembers everything for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.window = ReplayWindow(40, 3, skew_ns=10)
        self.admitted: set[tuple[tuple[str, str], bytes, int]] = set()
        self.latest_ns = {A: -1, B: -1}

    @rule(
        scope=st.sampled_from([A, B]), number=st.integers(0, 4), now_ns=st.integers(0, 200), age_ns=st.integers(-50, 20)
    )
    def message_comes(self, scope: tuple[str, str], number: int, now_ns: int, age_ns: int) -> None:
        """A message of any age, known or not."""
        sent_at_ns = max(0, now_ns + age_ns)
        entry = scope, bytes([number]), sent_at_ns
        if self.window.admit(*entry, now_ns):
            assert entry not in self.admitted
            assert now_ns - 40 <= sent_at_ns <= now_ns + 10
            self.admitted.add(entry)
            self.latest_ns[scope] = max(self.latest_ns[scope], sent_at_ns)

    @rule(data=st.data(), now_ns=st.integers(0, 200))
    def message_is_replayed(self, data: st.DataObject, now_ns: int) -> None:
        """A message that was let in comes again, at any later or earlier time."""
        if self.admitted:
            assert not self.window.admit(*data.draw(st.sampled_from(sorted(self.admitted))), now_ns)

    @rule(scope=st.sampled_from([A, B]))
    def newest_message_comes(self, scope: tuple[str, str]) -> None:
        """What is newer than all before, and new, is never shut out."""
        sent_at_ns = self.latest_ns[scope] + 1
        nonce = b"new %d" % sent_at_ns
        assert self.window.admit(scope, nonce, sent_at_ns, sent_at_ns)
        self.admitted.add((scope, nonce, sent_at_ns))
        self.latest_ns[scope] = sent_at_ns

    @invariant()
    def memory_is_bounded(self) -> None:
        """Both memories hold at most what the capacity says."""
        assert len(self.window) == len(self.window._in_order) // 3 + len(self.window._belated) <= 3


TestNeverTwice = pytest.mark.slow(NeverTwice.TestCase)
TestNeverTwice.settings = settings(stateful_step_count=50)


def test_the_holder_of_one_key_shuts_out_nobody_who_has_another() -> None:
    windows = ReplayWindows(300 * NS_PER_SECOND, 100, skew_ns=30 * NS_PER_SECOND)
    now_ns = 1000 * NS_PER_SECOND
    for number in range(1000):
        windows.admit(("theirs", "k"), b"%d" % number, now_ns + 25 * NS_PER_SECOND + number, now_ns)
    assert all(windows.admit(("ours", "k"), b"%d" % number, now_ns + number, now_ns) for number in range(100))
    assert not any(windows.admit(("ours", "k"), b"%d" % number, now_ns + number, now_ns) for number in range(100))


def test_windows_that_could_let_nothing_in_are_refused_when_they_are_made() -> None:
    with pytest.raises(SettingsError, match="a replay window needs"):
        ReplayWindows(0, 1)
