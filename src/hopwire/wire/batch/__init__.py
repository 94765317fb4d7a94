"""A million messages at a time: a column of frames to columns of fields (`decode_batch`), and back (`encode_batch`)."""

from hopwire.wire.batch.decoding import ApartRows, decode_apart, decode_batch
from hopwire.wire.batch.encoding import encode_batch

__all__ = ["ApartRows", "decode_apart", "decode_batch", "encode_batch"]
