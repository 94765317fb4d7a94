"""The four wire formats, row by row as their documents in `docs/wire/` draw them.

Lay the document beside the table: same rows, same order, same words (the last column is the document's; a test compares
them). This is the only place that knows a position. What the documents leave open is settled here by the types: all
integers are little-endian, a lane with "bits 1-16" is the first two bytes of its word, TTL is in ticks of 100 ns.

The trap: two documents call themselves V4. `V6` is the one titled V4 that has a meta frame; the number it writes is 6,
and a meta frame that carries the number 4 is read as V6 too.
"""

from __future__ import annotations

from hopwire.wire.schema import Entry, Field, Packed, Run, Type, WireFormat, __, n

__all__ = ["FORMATS", "V3", "V4", "V5", "V6"]

RAW, TEXT, EMPTY, META = Type.RAW, Type.TEXT, Type.EMPTY, Type.META
U16, I32, I64, I32_OR_EMPTY = Type.U16, Type.I32, Type.I64, Type.I32_OR_EMPTY
SELECTOR = True

# fmt: off
V3 = WireFormat("V3", 3, (b"\3\0\0\0",), (
    #     frame  bit  content                               type           in the document
    Field(0,      __, "socket_identity",                    RAW,           "Receiver socket ID"),
    Field(1,      __, "",                                   EMPTY,         "[0]"),
    Run("routing", (
        Entry("uri",                                        TEXT,          "ROUTER URI"),
        Entry("identity",                                   RAW,           "ROUTER ID"),
    )),
    Run("callback_points", (
        Entry("partition",                                  RAW,           "Callback Message Partition"),
        Entry("version",                                    RAW,           "Callback Version"),
        Entry("identity",                                   RAW,           "Callback Message ID"),
    )),
    Field(n - 20, __, "callback_points.stride",             I32,           "Callback Frames Divisor"),
    Field(n - 19, __, "routing.stride",                     I32,           "Message Routing Frames Divisor"),
    Field(n - 18, __, "partition",                          RAW,           "Message Partition", SELECTOR),
    Field(n - 17, __, "receiver_node_identity",             RAW,           "Receiver Node ID", SELECTOR),
    Field(n - 16, __, "hops",                               I32,           "Message Hops"),
    Field(n - 15, __, "routing.count",                      I32_OR_EMPTY,  "Message Routing Entries Count"),
    Field(n - 14, __, "routing.offset",                     I32_OR_EMPTY,  "Routing Start Frame Offset"),
    Field(n - 13, __, "trace_options",                      I64,           "TraceOptions"),
    Field(n - 12, __, "version",                            RAW,           "Version", SELECTOR),
    Field(n - 11, __, "identity",                           RAW,           "Message ID", SELECTOR),
    Field(n - 10, __, "receiver_identity",                  RAW,           "Receiver ID", SELECTOR),
    Field(n - 9,  __, "distribution",                       I32,           "Distribution pattern", SELECTOR),
    Field(n - 8,  __, "correlation_id",                     RAW,           "Correlation ID"),
    Field(n - 7,  __, "callback_points.count",              I32_OR_EMPTY,  "Callback Entries Count"),
    Field(n - 6,  __, "callback_points.offset",             I32_OR_EMPTY,  "Callback Start Frame Offset"),
    Field(n - 5,  __, "callback_receiver_identity",         RAW,           "Callback Receiver ID"),
    Field(n - 4,  __, "ttl_ticks",                          I64,           "TTL"),
    Field(n - 3,  __, "wire_format_version",                I32,           "Wire Format Version"),
    Field(n - 2,  __, "",                                   EMPTY,         "[0]"),
    Field(n - 1,  __, "body_frames",                        RAW,           "Body"),
))

V4 = WireFormat("V4", 4, (b"\4\0\0\0",), (
    #     frame  bit  content                               type           in the document
    Field(0,      __, "socket_identity",                    RAW,           "Receiver socket ID"),
    Field(1,      __, "",                                   EMPTY,         "[0]"),
    Run("body_frames", (
        Entry("body",                                       RAW,           "Body Frame"),
    )),
    Run("routing", (
        Entry("uri",                                        TEXT,          "ROUTER URI"),
        Entry("identity",                                   RAW,           "ROUTER ID"),
    )),
    Run("callback_points", (
        Entry("partition",                                  RAW,           "Callback Partition"),
        Entry("version",                                    RAW,           "Callback Version"),
        Entry("identity",                                   RAW,           "Callback Message ID"),
    )),
    Field(n - 15, __, "domain",                             TEXT,          "Message Security Domain"),
    Field(n - 14, __, "signature",                          RAW,           "Message Signature"),
    Field(n - 13,  1, "routing.offset",                     U16,           "Routing Start Frame Offset"),
    Field(n - 13, 17, "routing.count",                      U16,           "Routing Entry Count"),
    Field(n - 13, 33, "routing.stride",                     U16,           "Routing Frane Divisor"),
    Field(n - 13, 49, "hops",                               U16,           "Message Hops"),
    Field(n - 12,  1, "callback_points.offset",             U16,           "Callback Start Frame Offset"),
    Field(n - 12, 17, "callback_points.count",              U16,           "Callback Entry Count"),
    Field(n - 12, 33, "callback_points.stride",             U16,           "Callback Frame Divisor"),
    Field(n - 11, __, "receiver_identity",                  RAW,           "Direct Receiver Socket ID", SELECTOR),
    Field(n - 10, __, "callback_receiver_identity",         RAW,           "Callback Receiver ID"),
    Field(n - 9,  __, "receiver_node_identity",             RAW,           "Receiver Socket ID", SELECTOR),
    Field(n - 8,  __, "partition",                          RAW,           "Partition", SELECTOR),
    Field(n - 7,  __, "version",                            RAW,           "Version", SELECTOR),
    Field(n - 6,  __, "identity",                           RAW,           "Message ID", SELECTOR),
    Field(n - 5,   1, "trace_options",                      U16,           "Trace Options"),
    Field(n - 5,  17, "distribution",                       U16,           "Distribution Pattern", SELECTOR),
    Field(n - 4,  __, "correlation_id",                     RAW,           "Correlation ID"),
    Field(n - 3,  __, "ttl_ticks",                          I64,           "TTL"),
    Field(n - 2,   1, "body_frames.offset",                 U16,           "Body First Frame Offset"),
    Field(n - 2,  17, "body_frames.count",                  U16,           "Body Frame Count"),
    Field(n - 1,  __, "wire_format_version",                I32,           "Wire Format Version"),
), retired_tails=(13, 14, 16, 17))

V5 = WireFormat("V5", 5, (b"\5\0", b"\5\0\0\0"), (
    #     frame  bit  content                               type           in the document
    Field(0,      __, "socket_identity",                    RAW,           "SocketIdentity"),
    Field(1,      __, "",                                   EMPTY,         "[0]"),
    Run("body_frames", (
        Entry("body",                                       RAW,           "Body Frame"),
    )),
    Run("routing", (
        Entry("uri",                                        TEXT,          "ROUTER URI"),
        Entry("identity",                                   RAW,           "ROUTER ID"),
    )),
    Run("callback_points", (
        Entry("partition",                                  RAW,           "Callback Partition"),
        Entry("version",                                    U16,           "Callback Version"),
        Entry("identity",                                   RAW,           "Callback Message Identity"),
    )),
    Field(n - 17, __, "callback_receiver_node_identity",    RAW,           "CallbackReceiverNodeIdentity"),
    Field(n - 16, __, "callback_key",                       I64,           "CallbackKey"),
    Field(n - 15, __, "domain",                             TEXT,          "Domain"),
    Field(n - 14, __, "signature",                          RAW,           "Signature"),
    Field(n - 13,  1, "routing.offset",                     U16,           "Routing Start Frame Offset"),
    Field(n - 13, 17, "routing.count",                      U16,           "Routing Entry Count"),
    Field(n - 13, 33, "routing.stride",                     U16,           "Routing Frame Divisor"),
    Field(n - 13, 49, "hops",                               U16,           "Message Hops"),
    Field(n - 12,  1, "callback_points.offset",             U16,           "Callback Start Frame Offset"),
    Field(n - 12, 17, "callback_points.count",              U16,           "Callback Entry Count"),
    Field(n - 12, 33, "callback_points.stride",             U16,           "Callback Frame Divisor"),
    Field(n - 11, __, "receiver_identity",                  RAW,           "ReceiverIdentity", SELECTOR),
    Field(n - 10, __, "callback_receiver_identity",         RAW,           "CallbackReceiverIdentity"),
    Field(n - 9,  __, "receiver_node_identity",             RAW,           "ReceiverNodeIdentity", SELECTOR),
    Field(n - 8,  __, "partition",                          RAW,           "Partition", SELECTOR),
    Field(n - 7,  __, "version",                            U16,           "Version", SELECTOR),
    Field(n - 6,  __, "identity",                           RAW,           "Identity", SELECTOR),
    Field(n - 5,   1, "trace_options",                      U16,           "TraceOptions"),
    Field(n - 5,  17, "distribution",                       U16,           "Distribution", SELECTOR),
    Field(n - 4,  __, "correlation_id",                     RAW,           "CorrelationId"),
    Field(n - 3,  __, "ttl_ticks",                          I64,           "TTL"),
    Field(n - 2,   1, "body_frames.offset",                 U16,           "Body First Frame Offset"),
    Field(n - 2,  17, "body_frames.count",                  U16,           "Body Frame Count"),
    Field(n - 1,  __, "wire_format_version",                U16,           "WireFormatVersion"),
))

V6 = WireFormat("V6", 6, (b"\6\0", b"\4\0"), (
    #     frame  bit  content                               type           in the document
    Field(0,      __, "socket_identity",                    RAW,           "SocketIdentity"),
    Field(1,      __, "",                                   EMPTY,         "[0]"),
    Run("body_frames", (
        Entry("body",                                       RAW,           "Body Frame"),
    )),
    Field(n - 1,  __, "meta",                               META,          "Meta Frame"),
    #     item   bit
    Field(__,     __, "wire_format_version",                U16,           "WireFormatVersion"),
    Field(__,     __, "partition",                          RAW,           "Partition", SELECTOR),
    Field(__,     __, "version",                            U16,           "Version", SELECTOR),
    Field(__,     __, "identity",                           RAW,           "Identity", SELECTOR),
    Field(__,     __, "receiver_identity",                  RAW,           "ReceiverIdentity", SELECTOR),
    Field(__,     __, "receiver_node_identity",             RAW,           "ReceiverNodeIdentity", SELECTOR),
    Field(__,      1, "trace_options",                      U16,           "TraceOptions"),
    Field(__,     17, "distribution",                       U16,           "Distribution", SELECTOR),
    Field(__,     33, "",                                   U16,           "RESERVED"),
    Field(__,     49, "",                                   U16,           "RESERVED"),
    Field(__,     __, "callback_receiver_node_identity",    RAW,           "CallbackReceiverNodeIdentity"),
    Field(__,     __, "callback_key",                       I64,           "CallbackKey"),
    Field(__,     __, "domain",                             TEXT,          "Domain"),
    Field(__,     __, "signature",                          RAW,           "Signature"),
    Field(__,      1, "routing.count",                      U16,           "Routing Entry Count"),
    Field(__,     17, "hops",                               U16,           "Message Hops"),
    Field(__,     33, "",                                   U16,           "RESERVED"),
    Field(__,     49, "",                                   U16,           "RESERVED"),
    Packed("routing", (
        Entry("uri",                                        TEXT,          "ROUTER URI"),
        Entry("identity",                                   RAW,           "ROUTER ID"),
    ), "Routing Entry Size"),
    Field(__,     __, "callback_points.count",              U16,           "Callback Entry Count"),
    Packed("callback_points", (
        Entry("partition",                                  RAW,           "Callback Partition"),
        Entry("version",                                    U16,           "Callback Version"),
        Entry("identity",                                   RAW,           "Callback Message Identity"),
    ), "Callback Entry Size"),
    Field(__,     __, "callback_receiver_identity",         RAW,           "CallbackReceiverIdentity"),
    Field(__,     __, "correlation_id",                     RAW,           "CorrelationId"),
    Field(__,     __, "ttl_ticks",                          I64,           "TTL"),
    Field(__,      1, "body_frames.offset",                 U16,           "Body First Frame Offset"),
    Field(__,     17, "body_frames.count",                  U16,           "Body Frame Count"),
    Field(__,     33, "",                                   U16,           "RESERVED"),
    Field(__,     49, "",                                   U16,           "RESERVED"),
))
# fmt: on

FORMATS = (V3, V4, V5, V6)
