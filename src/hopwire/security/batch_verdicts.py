"""The verdicts of a whole batch: the table of `signing.py`, column by column.

Rows 1 to 4 of that table depend only on the domain, on the identity, and on whether there is a signature. They are
decided once for each pair of domain and identity that occurs. For rows 5 to 8 the signed bytes of all messages are put
together by Arrow, as the tables of `schemes.py` say, and only the hashes are computed one by one.

Rows 9 and 10 do not apply: a batch is no process that a message could be for, and it has no replay window, since
messages of other batches may have come before.

The trap: `schemes.py` writes the same bytes for one message. A new scheme is a row in the tables of both modules, and
the tests compare the two message for message. MACs are compared as columns, not in constant time: no attacker can
measure how long a batch takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, binary_from_rows, bools, ints
from hopwire.model.payload import MAX_VERSION
from hopwire.security.domains import Domain, Domains, Key
from hopwire.security.schemes import LABEL, LABEL_2, MAC_BYTES, MAGIC, NONCE_BYTES, SCHEMES, keyed_all, read_signature
from hopwire.security.signing import Verdict

__all__ = ["VERDICT_COLUMNS", "verify_batch"]


Columns: TypeAlias = pa.RecordBatch

VERDICT_COLUMNS = (
    "identity", "version", "version_raw", "partition", "body_frames", "callback_receiver_identity", "domain",
    "signature", "correlation_id", "receiver_identity", "receiver_node_identity", "callback_receiver_node_identity",
    "callback_points", "callback_key", "trace_options", "distribution", "ttl_ticks", "hops", "routing", "extensions",
)  # fmt: skip
LEGACY_COLUMNS = VERDICT_COLUMNS[:8]  # what the bare scheme signs, and by what it is told apart
VERDICTS = tuple(Verdict)
VALID, INVALID, NO_KEY = (VERDICTS.index(each) for each in (Verdict.VALID, Verdict.INVALID, Verdict.NO_KEY))
UNDECIDED = -1
NOT_A_MESSAGE = -2
I64_BYTES = 8
TAIL_BYTES = 2 * I64_BYTES + NONCE_BYTES + MAC_BYTES  # of a signature with a stamp: sent at, TTL, nonce, MAC
WORTH_A_COPY = 0.7  # of the rows: above this share the signed bytes of all rows are made, not of the wanted rows only
BLOB = pa.large_binary()  # the bytes of a batch may be more than a 32-bit offset reaches
NOTHING_BETWEEN = pa.scalar(b"", BLOB)


def verify_batch(messages: pa.RecordBatch, domains: Domains, seen_at_ns: pa.Array) -> pa.Array:
    """Judge the signatures of decoded messages, each at the time it was seen; null where the row is no message."""
    codes = _decided_by_name(messages, domains)
    times = ints(seen_at_ns)
    has_nulls = messages.column("identity").null_count
    for scheme, judge in JUDGES.items():
        read_by = [domain for domain in domains.domains if _reads(domain.scheme, scheme)]
        rows = np.flatnonzero((codes == UNDECIDED) & _may_be_in(scheme, messages, read_by))
        if len(rows) == 0:
            continue
        part = messages.select(LEGACY_COLUMNS if judge is _judge_bare else VERDICT_COLUMNS)
        if len(rows) < len(codes) * WORTH_A_COPY or has_nulls:
            codes[rows] = judge(part.take(pa.array(rows)), read_by, times[rows], scheme)
        else:
            codes[rows] = judge(part, read_by, times, scheme)[rows]
    is_none = codes == NOT_A_MESSAGE
    words = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8), mask=is_none), pa.array(list(VERDICTS)))
    return words.cast(pa.string())


def _reads(of_domain: str, scheme: str) -> bool:
    """Tell whether a domain of one scheme reads another: each hopwire scheme is read by the domains of both."""
    return of_domain == scheme or (SCHEMES[of_domain].has_stamp and SCHEMES[scheme].has_stamp)


def _may_be_in(scheme: str, messages: Columns, domains: list[Domain]) -> Bools:
    """Rows of these domains whose signature says that scheme; the last scheme takes those that say none."""
    is_here = pc.is_in(messages.column("domain"), pa.array([domain.name for domain in domains], pa.string()))
    if scheme != LAST:
        start = MAGIC + bytes((SCHEMES[scheme].number,)) if SCHEMES[scheme].has_stamp else b""
        is_here = pc.and_(is_here, pc.starts_with(messages.column("signature"), start))
    return bools(is_here)


def _decided_by_name(messages: pa.RecordBatch, domains: Domains) -> Ints:
    """Rows 1 to 4: a verdict for each pair of domain and identity, with and without a signature."""
    names, identities = (messages.column(name).dictionary_encode() for name in ("domain", "identity"))
    is_message = bools(names.indices.is_valid())
    firsts, seconds = ints(names.indices), ints(identities.indices)
    signed = bools(pc.greater(pc.binary_length(messages.column("signature")), 0))
    pairs = firsts * max(len(identities.dictionary), 1) + seconds
    found, places = np.unique(pairs, return_inverse=True)
    name_of, identity_of = names.dictionary.to_pylist(), identities.dictionary.to_pylist()
    table = np.empty((len(found), 2), dtype=np.int64)
    for row, pair in enumerate(found.tolist() if name_of else ()):
        first, second = divmod(pair, len(identity_of))
        table[row] = _by_name(name_of[first], identity_of[second], domains)
    codes = np.asarray(table[places, signed.astype(np.int64)])
    codes[~is_message] = NOT_A_MESSAGE
    return codes


def _by_name(name: str, identity: bytes, domains: Domains) -> tuple[int, int]:
    """The verdicts of a message without a signature, and of a message with a signature."""
    domain = domains.get(name)
    unsigned = VERDICTS.index(Verdict.UNSIGNED)
    if domain is None:
        return (NO_KEY if name else unsigned), NO_KEY
    if domains.owner(name, identity) is not domain:
        return (VERDICTS.index(Verdict.NOT_IN_DOMAIN),) * 2
    return unsigned, UNDECIDED


# -- rows 5 to 8, for all domains of one scheme; a row of another domain stays undecided


def _judge_bare(messages: Columns, domains: list[Domain], times: Ints, scheme: str) -> Ints:
    codes = np.full(len(times), UNDECIDED)
    signed, macs = signed_columns(messages, scheme, None), messages.column("signature")
    for domain in domains:
        here = _is_of(messages, domain)
        codes[here] = NO_KEY
        for key in domain.keys:
            rows = np.flatnonzero(here & (codes != VALID) & _is_valid_at(key, times))
            codes[rows] = np.where(_have_mac(signed, macs, rows, domain, key), VALID, INVALID)
    codes[(codes == VALID) & _is_odd_version(messages)] = INVALID
    return codes


def _judge_stamped(messages: Columns, domains: list[Domain], times: Ints, scheme: str) -> Ints:
    codes = np.full(len(times), UNDECIDED)
    signatures = messages.column("signature")
    written, macs = pc.binary_slice(signatures, 0, -MAC_BYTES), pc.binary_slice(signatures, -MAC_BYTES, None)
    signed = signed_columns(messages, scheme, written)
    sent_at, ttl = _numbers_in(signatures)
    is_readable = (sent_at >= 0) & (ttl >= 0)
    has_shrunk = _has_shrunk(ints(messages.column("ttl_ticks")), ttl)
    key_ids, key_of = _key_ids(signatures, scheme)
    for domain in domains:
        here = _is_of(messages, domain)
        codes[here] = INVALID
        for number, key_id in enumerate(key_ids):
            rows = here & is_readable & (key_of == number)
            codes[rows] = NO_KEY
            for key in domain.keys_at(None, key_id):
                those = np.flatnonzero(rows & _is_valid_at(key, times))
                is_right = _have_mac(signed, macs, those, domain, key) & has_shrunk[those]
                codes[those] = np.where(is_right, VALID, INVALID)
    return codes


def _key_ids(signatures: pa.Array, scheme: str) -> tuple[list[str], Ints]:
    """The key ids that occur, and the number of that of each row; -1 where the stamp cannot be read.

    The part of a stamp in front of its numbers is the same for all messages with one key and one recipient: few differ.
    """
    heads = pc.binary_slice(signatures, 0, -TAIL_BYTES).dictionary_encode()
    numbers: dict[str, int] = {}
    of_head = np.full(len(heads.dictionary) + 1, -1)
    for place, head in enumerate(heads.dictionary.to_pylist()):
        parts = read_signature(head + bytes(TAIL_BYTES), scheme)
        if parts and parts.stamp and parts.scheme == scheme:
            of_head[place] = numbers.setdefault(parts.stamp.key_id, len(numbers))
    return list(numbers), of_head[ints(heads.indices, null=-1)]


def _is_of(messages: Columns, domain: Domain) -> Bools:
    return bools(pc.equal(messages.column("domain"), domain.name))


def _is_valid_at(key: Key, times: Ints) -> Bools:
    is_valid = np.ones(len(times), dtype=np.bool_)
    if key.not_before_ns is not None:
        is_valid &= times >= key.not_before_ns
    if key.not_after_ns is not None:
        is_valid &= times < key.not_after_ns
    return is_valid


def _have_mac(signed: pa.Array, macs: pa.Array, rows: Ints, domain: Domain, key: Key) -> Bools:
    data = memoryview(signed.buffers()[2])
    bounds = np.frombuffer(signed.buffers()[1], dtype=np.int64, count=len(signed) + 1)
    starts, stops = bounds[rows].tolist(), bounds[rows + 1].tolist()
    computed = pa.array(keyed_all(key.secret, domain.algorithm, data, starts, stops), pa.binary())
    found = macs if len(rows) == len(macs) else macs.take(pa.array(rows))
    return bools(pc.equal(computed, found))


def _has_shrunk(ttl: Ints, signed: Ints) -> Bools:
    return np.where(signed == 0, ttl >= 0, (ttl > 0) & (ttl <= signed))


def _numbers_in(signatures: pa.Array) -> tuple[Ints, Ints]:
    """The times and the TTLs of the stamps; -1 where a signature is too short to have one."""
    bounds = np.frombuffer(signatures.buffers()[1], dtype=np.int32)[signatures.offset :][: len(signatures) + 1]
    data = np.frombuffer(signatures.buffers()[2] or b"", dtype=np.uint8)
    numbers = np.full((2, len(signatures)), -1)
    rows = np.flatnonzero(np.diff(bounds) >= TAIL_BYTES)
    for row, place in zip(numbers, (TAIL_BYTES, TAIL_BYTES - I64_BYTES), strict=True):
        starts = bounds[rows + 1].astype(np.int64) - place
        row[rows] = data[starts[:, None] + np.arange(I64_BYTES)].view("<i8").ravel()
    return numbers[0], numbers[1]


# -- signed bytes


def signed_columns(messages: Columns, scheme: str, written: pa.Array | None) -> pa.Array:
    """Give the bytes that a scheme signs of each message; `written` is the stamp, if the scheme has a stamp."""
    parts = WRITERS[scheme](messages, written)
    joined = pc.binary_join_element_wise(*[_blob(part) for part in parts], NOTHING_BETWEEN)
    return pa.concat_arrays([joined])  # a copy whose buffers begin with its first row


def _blob(part: Any) -> Any:
    return pa.scalar(part, BLOB) if isinstance(part, bytes) else part.cast(BLOB)


def _legacy(messages: Columns, written: pa.Array | None) -> list[Any]:
    body = pc.binary_join(messages.column("body_frames"), b"")
    number = binary_from_rows(ints(messages.column("version")).astype("<u2"))
    version = pc.coalesce(messages.column("version_raw"), number)
    names = ("identity", "partition", "callback_receiver_identity")
    identity, partition, receiver = (messages.column(name) for name in names)
    return [identity, version, partition, body, receiver]


def _is_odd_version(messages: Columns) -> Bools:
    """Rows whose version does not fit into two bytes: such a version cannot be signed."""
    numbers = ints(messages.column("version"))
    return np.asarray((numbers < 0) | (numbers > MAX_VERSION))


def _hopwire_1(messages: Columns, written: pa.Array | None) -> list[Any]:
    points, frames = messages.column("callback_points"), messages.column("body_frames")
    columns = [messages.column(name) for name in ("distribution", "trace_options", "callback_key")]
    columns += [pc.list_value_length(points), pc.list_value_length(frames)]
    return [*_fields(messages, LABEL, written, columns), _joined_points(points), _joined(frames, [frames.values])]


def _hopwire_2(messages: Columns, written: pa.Array | None) -> list[Any]:
    points, frames = messages.column("callback_points"), messages.column("body_frames")
    routing, extensions = messages.column("routing"), messages.column("extensions")
    columns = [messages.column(name) for name in ("distribution", "trace_options", "callback_key")]
    columns += [pc.list_value_length(points), pc.list_value_length(frames), messages.column("hops")]
    columns += [pc.list_value_length(routing), pc.list_value_length(extensions)]
    way = [pc.struct_field(routing.values, name).cast(pa.binary()) for name in ("uri", "identity")]
    lists = [_joined_points(points), _joined(routing, way)]
    lists += [_joined(each, [each.values]) for each in (extensions, frames)]
    return [*_fields(messages, LABEL_2, written, columns), *lists]


def _fields(messages: Columns, label: bytes, written: pa.Array | None, columns: list[Any]) -> list[Any]:
    """What both schemes begin with: label, stamp, domain, a field of numbers, and the plain fields."""
    numbers = np.empty((len(messages), len(columns)), dtype="<i8")
    for place, column in enumerate(columns):
        numbers[:, place] = ints(column)
    fields = [
        written,
        messages.column("domain").cast(pa.binary()),
        binary_from_rows(numbers),
        messages.column("identity"),
        _versions(messages.column("version"), messages.column("version_raw")),
    ]
    fields += [messages.column(name) for name in BLOBS]
    parts: list[Any] = [len(label).to_bytes(8, "little") + label]
    for field in fields:
        parts += [_sizes(field), field]
    return parts


BLOBS = (
    "partition", "correlation_id", "receiver_identity", "receiver_node_identity", "callback_receiver_identity",
    "callback_receiver_node_identity",
)  # fmt: skip

WRITERS: Mapping[str, Callable[[Columns, pa.Array | None], list[Any]]] = {
    "legacy": _legacy,
    "hopwire-1": _hopwire_1,
    "hopwire-2": _hopwire_2,
}
JUDGES: Mapping[str, Callable[[Columns, list[Domain], Ints, str], Ints]] = {
    "legacy": _judge_bare,
    "hopwire-2": _judge_stamped,
    "hopwire-1": _judge_stamped,
}
LAST = "hopwire-1"


def _joined_points(points: pa.Array) -> pa.Array:
    entries = points.values
    identity, version, raw, partition = (
        pc.struct_field(entries, name) for name in ("identity", "version", "version_raw", "partition")
    )
    return _joined(points, [identity, _versions(version, raw), partition])


def _joined(lists: pa.Array, fields: list[pa.Array]) -> pa.Array:
    """The entries of each list, every field behind its size."""
    parts = [_blob(part) for field in fields for part in (_sizes(field), field)]
    entries = pc.binary_join_element_wise(*parts, NOTHING_BETWEEN)
    return pc.binary_join(pa.LargeListArray.from_arrays(lists.offsets.cast(pa.int64()), entries), NOTHING_BETWEEN)


def _versions(numbers: pa.Array, raw: pa.Array) -> pa.Array:
    packed = np.zeros((len(numbers), 9), dtype=np.uint8)
    packed[:, 0] = ord("n")
    packed[:, 1:] = ints(numbers).astype("<i8").view(np.uint8).reshape(-1, 8)
    marked = pc.binary_join_element_wise(pa.scalar(b"r"), raw, pa.scalar(b""))  # null where there is no raw version
    return pc.coalesce(marked, binary_from_rows(packed))


def _sizes(blobs: pa.Array) -> pa.Array:
    return binary_from_rows(ints(pc.binary_length(blobs)).astype("<u8"))
