"""Many mutated messages: only reasons, and both readers the same ones. `make fuzz` runs it for longer."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from hopwire.model.reasons import WIRE_REASONS
from tests.wire.batch.test_decoding import SMALL, assert_read_alike
from tests.wire.mutate import mutated

BATCH = 2_000
SHARDS = 10  # each a test of its own, so that workers share the load


@pytest.mark.fuzz
@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_mutated_messages_give_a_reason_or_a_message_and_both_readers_the_same(shard: int, fuzz_cases: int) -> None:
    chance = Random(shard)
    reasons: Counter[str | None] = Counter()
    for _ in range(max(1, fuzz_cases // SHARDS // BATCH)):
        batch = assert_read_alike([mutated(chance.choice(SMALL), chance) for _ in range(BATCH)])
        reasons.update(batch.column("reason").to_pylist())
    assert reasons.keys() - {None} <= WIRE_REASONS.keys()
    assert len(reasons) > 10, "the mutations reach most of the reasons"
