"""Tables to straight-line code: the functions that `codec.py` calls are written here, once, at import.

A walk over a table for every message costs ten times as much as the same steps written out. So each table becomes three
functions, as dataclasses do it: read a message, read only its route selectors, write a message. `source(V6)` gives
their text.

The code takes short cuts. They are safe, because the code only says that something is wrong, never what:

- a frame of fixed width goes through `Struct.unpack`, which refuses any other width;
- lengths are read as unsigned numbers, so a negative one is huge, and the next `unpack_from` refuses to read behind
  the end;
- a blob is cut out before it is known to be whole, since every blob in the meta frame has a number behind it;
- traffic has few shapes: a meta frame as long as an earlier meta frame is read by one `unpack`, as if the lengths in it
  were the same. The lengths are read with the rest, and compared. Where they differ, the meta frame is read step by
  step.

A message that is refused goes to `walk.py`, which says why.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from hopwire.model import Message, Selectors
from hopwire.wire.schema import ENTRY_TYPES, Field, FromEnd, Packed, Run, Type, WireFormat, Word

__all__ = ["Suspect", "compiled", "source"]

SELECTOR_NAMES = Selectors.__struct_fields__
SHAPES_KEPT = 1024  # traffic has few shapes, and hostile traffic must not fill the memory
ENTRIES_KEPT, LONGEST_KEPT = 1024, 512  # blocks of entries that were read lately, and the bytes that one may have


class Suspect(ValueError):
    """Something is wrong with a message; the walk finds out what."""


def source(fmt: WireFormat) -> str:
    """Give the code that reads and writes a format, as text."""
    return "\n".join(_SourceWriter(fmt).lines)


def compiled(fmt: WireFormat) -> dict[str, Callable[..., Any]]:
    """Give the functions `decode`, `select` and `encode` of a format."""
    names: dict[str, Any] = {
        "Message": Message,
        "Selectors": Selectors,
        **{entry.__name__: entry for entry in ENTRY_TYPES.values()},
        "Struct": struct.Struct,
        "Suspect": Suspect,
        "SHAPES_KEPT": SHAPES_KEPT,
        "ENTRIES_KEPT": ENTRIES_KEPT,
        "LONGEST_KEPT": LONGEST_KEPT,
    }
    exec(compile(source(fmt), f"<{fmt.name} from wire/formats.py>", "exec"), names)  # noqa: S102 - our own tables
    return {name: names[name] for name in ("decode", "select", "encode")}


def _variable(name: str) -> str:
    return name.replace(".", "_")


class _SourceWriter:
    """Writes the code of one format, line by line."""

    def __init__(self, fmt: WireFormat) -> None:
        self.fmt = fmt
        self.lines: list[str] = []
        self._structs: dict[str, str] = {}
        body = [self._decode, self._select, self._encode]
        if fmt.has_meta_frame:
            body = [self._shapes, self._entry_functions, self._decode_steps, self._decode_meta, self._select_meta]
            body.append(self._encode_meta)
        for write in body:
            write()
        self.lines[:0] = [f"{name} = {made}" for made, name in self._structs.items()] + [""]

    def _put(self, depth: int, *lines: str) -> None:
        self.lines.extend("    " * depth + line for line in lines)

    def _struct(self, codes: str, method: str) -> str:
        """Name a method of a precompiled struct."""
        made = f"Struct('<{codes}').{method}"
        return self._structs.setdefault(made, f"{method}_{codes}")

    # -- frames: reading

    def _read_word(self, word: Word, only: tuple[str, ...] | None = None) -> None:
        field = word[0]
        assert isinstance(field.frame, FromEnd)
        frame = f"f{field.frame.k}"
        wanted = [f for f in word if f.name and (only is None or f.name in only)]
        if field is self.fmt.number_field or (only is not None and not wanted):
            return
        name = _variable(field.name)
        if field.bit is not None:
            codes, names = _lanes(word)
            self._put(1, f"{names.strip()} = {self._struct(codes, 'unpack')}({frame})")
        elif field.type is Type.EMPTY:
            self._put(1, f"if {frame}:", "    raise Suspect")
        elif field.type is Type.I32_OR_EMPTY:
            self._put(1, f"{name} = {self._struct('i', 'unpack')}({frame})[0] if {frame} else 0")
        elif field.type.is_number:
            self._put(1, f"{name}, = {self._struct(field.type.code, 'unpack')}({frame})")
        elif field.type is Type.TEXT:
            self._put(1, f"{name} = {frame}.decode()")
        else:
            self._put(1, f"{name} = {frame}")

    def _decode(self) -> None:
        tail = self.fmt.tail
        self._put(0, "", "def decode(frames, n, max_entries):")
        self._put(1, f"({', '.join(f'f{k}' for k in range(tail, 0, -1))}) = frames[-{tail}:]")
        for word in self.fmt.tail_words:
            self._read_word(word)
        self._put(1, f"top = {tail}")
        for run in reversed(self.fmt.runs):
            if run.name == "body_frames":
                self._read_body("n")
            else:
                self._read_run(run)
        if not self.fmt.has_body_run:
            self._put(1, "first = n - top", "body_frames = (body_frames,)")
        self._read_front_and_build()

    def _read_run(self, run: Run) -> None:
        name, stride, width = run.name, f"{run.name}_stride", len(run.entry)
        self._put(1, f"if {name}_count and {name}_offset != -1:")
        self._put(
            2, f"if {name}_offset <= top or {name}_count < 0 or {name}_count > max_entries or {stride} < {width}:"
        )
        self._put(3, "raise Suspect")
        if self.fmt.retired_tails:
            self._put(2, f"if top == {self.fmt.tail} and {name}_offset != {self.fmt.tail + 1}:", "    raise Suspect")
        self._put(2, f"top = {name}_offset + {name}_count * {stride} - 1", "if top > n:", "    raise Suspect")
        self._put(2, f"start, stop = n - top + {stride} - 1, n - {name}_offset + 1")
        columns = {}
        for above, entry in enumerate(reversed(run.entry)):
            column = f"frames[start - {above}:stop - {above}:{stride}]"
            if entry.type is Type.U16:
                self._put(2, f"{entry.name}s = [{self._struct('H', 'unpack')}(v)[0] for v in {column}]")
                column = f"{entry.name}s"
            elif entry.type is Type.TEXT:
                column = f"[v.decode() for v in {column}]"
            columns[entry.name] = column
        self._put(2, f"{name} = tuple(map({_entry_type(name)}, {_in_order(name, columns)}))")
        self._put(1, "else:", f"    {name} = ()")

    def _read_body(self, count: str) -> None:
        self._put(1, f"if body_frames_count < 1 or body_frames_offset > {count}:", "    raise Suspect")
        self._put(1, "if body_frames_offset - body_frames_count < top:", "    raise Suspect")
        if self.fmt.retired_tails:
            bottom = "body_frames_offset - body_frames_count"
            self._put(1, f"if top == {self.fmt.tail} and {bottom} != {self.fmt.tail}:", "    raise Suspect")
        self._put(1, f"first = {count} - body_frames_offset")
        self._put(1, "body_frames = tuple(frames[first:first + body_frames_count])")

    def _read_front_and_build(self) -> None:
        self._put(1, "socket_identity = frames[first - 2] if first >= 2 and not frames[first - 1] else b''")
        empty: dict[str, Any] = {field: Message(b"").__getattribute__(field) for field in self.fmt.not_carried}
        values = [repr(empty[name]) if name in empty else name for name in Message.__struct_fields__]
        self._put(1, f"return Message({', '.join(values)})")

    def _select(self) -> None:
        tail = self.fmt.tail
        self._put(0, "", "def select(frames):")
        wanted = [word for word in self.fmt.tail_words if any(field.is_selector for field in word)]
        self._put(1, f"if len(frames) < {tail}:", "    raise Suspect")
        for word in wanted:
            assert isinstance(word[0].frame, FromEnd)
            self._put(1, f"f{word[0].frame.k} = frames[-{word[0].frame.k}]")
            self._read_word(word, only=SELECTOR_NAMES)
        self._put(1, f"return Selectors({', '.join(SELECTOR_NAMES)})")

    # -- frames: writing

    def _refuse_not_carried(self) -> None:
        if self.fmt.not_carried:
            self._put(1, f"if {' or '.join(f'm.{name}' for name in self.fmt.not_carried)}:", "    raise Suspect")

    def _encode(self) -> None:
        self._put(0, "", "def encode(m):")
        self._refuse_not_carried()
        self._put(1, "body_frames = m.body_frames", "body_frames_count = len(body_frames)")
        self._put(1, f"if body_frames_count {'< 1' if self.fmt.has_body_run else '!= 1'}:", "    raise Suspect")
        self._put(1, "frames = [m.socket_identity, b'']")
        for run in self.fmt.runs:
            self._write_run(run)
        self._write_offsets()
        frames = ", ".join(self._written_word(word) for word in self.fmt.tail_words)
        self._put(1, f"frames += ({frames})", "return frames")

    def _write_run(self, run: Run) -> None:
        if run.name == "body_frames":
            self._put(1, "frames += body_frames")
            return
        values = [self._written(entry.type, f"e.{entry.name}") for entry in run.entry]
        self._put(1, f"{run.name} = m.{run.name}", f"{run.name}_count = len({run.name})")
        self._put(1, f"for e in {run.name}:", f"    frames += ({', '.join(values)})")

    def _write_offsets(self) -> None:
        """Blocks stand upon one another: callback points on the tail, routing on them, the body on top."""
        below = str(self.fmt.tail)
        for run in reversed(self.fmt.runs):
            if run.name == "body_frames":
                self._put(1, f"body_frames_offset = {below} + body_frames_count")
            else:
                self._put(1, f"{run.name}_offset = {below} + 1 if {run.name}_count else 0")
                below += f" + {len(run.entry)} * {run.name}_count"

    def _written_word(self, word: Word) -> str:
        if word[0].bit is None:
            return self._written_field(word[0])
        codes, _ = _lanes(word)
        lanes = {field.lane_byte // 2: self._value(field) for field in word if field.name}
        values = ", ".join(lanes.get(lane, "0") for lane in range(4) if _code_at(codes, lane) == "H")
        return f"{self._struct(codes, 'pack')}({values})"

    def _written_field(self, field: Field) -> str:
        if field is self.fmt.number_field:
            return repr(self.fmt.numbers[0])
        if field.type is Type.EMPTY:
            return "b''"
        return self._written(field.type, self._value(field))

    def _written(self, kind: Type, value: str) -> str:
        if kind is Type.TEXT:
            return f"{value}.encode()"
        if kind is Type.I32_OR_EMPTY:
            return f"{self._struct('i', 'pack')}({value}) if {value} else b''"
        return f"{self._struct(kind.code, 'pack')}({value})" if kind.is_number else value

    def _value(self, field: Field) -> str:
        """The expression that gives the value of a field, out of the message or of what was counted before."""
        block, _, what = field.name.partition(".")
        if what == "stride":
            return str(next(len(run.entry) for run in self.fmt.runs if run.name == block))
        if what:
            return _variable(field.name)
        return "body_frames[0]" if field.name == "body_frames" else f"m.{field.name}"

    # -- the meta frame: reading

    def _decode_steps(self) -> None:
        self._put(0, "", "def decode_steps(frames, n, max_entries):", "    meta = frames[-1]")
        self._read_items(self.fmt.meta_items)
        self._put(1, "if at != len(meta):", "    raise Suspect")
        lengths = [f"size_of_{item.name}" if isinstance(item, Packed) else f"len({item})" for item in self._blobs()]
        self._put(1, f"learn(at, ({', '.join(lengths)}))")
        self._read_frames_and_build()

    def _decode_meta(self) -> None:
        self._put(0, "", "def decode(frames, n, max_entries):", "    meta = frames[-1]")
        self._put(1, "layout = layouts.get(len(meta))")
        self._put(1, "if layout is None:", "    return decode_steps(frames, n, max_entries)")
        names, sizes = self._unpacked_names()
        self._put(1, f"{', '.join(names)} = layout[0](meta)")
        self._put(1, f"if ({', '.join(sizes)}) != layout[1]:", "    return decode_steps(frames, n, max_entries)")
        for block in (item for item in self.fmt.meta_items if isinstance(item, Packed)):
            known = f"known_{block.name}({block.name}, {block.name}_count, max_entries)"
            self._put(1, f"{block.name} = {known} if {block.name} or {block.name}_count else ()")
        self._read_frames_and_build()

    def _read_frames_and_build(self) -> None:
        self._put(1, f"top = {self.fmt.tail}")
        self._read_body("n")
        self._put(1, "extensions = tuple(frames[first + body_frames_count:-1])")
        texts = [field.name for field in self.fmt.fields if field.frame is None and field.type is Type.TEXT]
        for name in texts:
            self._put(1, f"{name} = {name}.decode()")
        self._read_front_and_build()

    def _blobs(self) -> list[str | Packed]:
        """What has a length of its own in the meta frame: the names of blobs, and the blocks of entries."""
        items: list[str | Packed] = []
        for item in self.fmt.meta_items:
            if isinstance(item, Packed):
                items.append(item)
            elif item[0].bit is None and not item[0].type.is_number:
                items.append(item[0].name)
        return items

    def _unpacked_names(self) -> tuple[list[str], list[str]]:
        """The names of everything that is unpacked from a meta frame at once, and of the lengths among it."""
        names: list[str] = []
        for item in self.fmt.meta_items:
            if isinstance(item, Packed):
                names.append(item.name)
            elif item[0].bit is not None or item[0].type.is_number:
                names += [_variable(field.name) for field in item if field.name and field is not self.fmt.number_field]
            else:
                names += [f"size_of_{item[0].name}", item[0].name]
        return names, [name for name in names if name.startswith("size_of_")]

    def _select_meta(self) -> None:
        self._put(0, "", "def select(frames):", "    meta = frames[-1]")
        items = self.fmt.meta_items
        last = max(i for i, item in enumerate(items) if isinstance(item, tuple) and any(f.is_selector for f in item))
        self._read_items(items[: last + 1])
        self._put(1, f"return Selectors({', '.join(SELECTOR_NAMES)})")

    def _read_items(self, items: tuple[Word | Packed, ...]) -> None:
        """Numbers that stand together are read together, with the length of the blob behind them."""
        codes, names = "", ""
        at = "0"
        for item in items:
            if isinstance(item, Packed):
                at = self._flush(codes, names, at)
                codes = names = ""
                count = f"{item.name}_count"
                self._put(1, "begin = at", f"if {count}:", f"    if {count} > max_entries:", "        raise Suspect")
                self._put(2, f"at, {item.name} = read_{item.name}(meta, at, {count})")
                self._put(1, "else:", f"    {item.name} = ()", f"size_of_{item.name} = at - begin")
            elif item[0].bit is not None:
                lane_codes, lane_names = _lanes(item)
                codes, names = codes + lane_codes, names + lane_names
            elif item[0] is self.fmt.number_field:
                codes += f"{item[0].type.width}x"  # known by now
            elif item[0].type.is_number:
                codes += item[0].type.code
                names += f"{_variable(item[0].name)}, "
            else:
                at = self._flush(codes + "I", names + "size, ", at, item[0].name)
                codes = names = ""
        self._flush(codes, names, at)

    def _flush(self, codes: str, names: str, at: str, blob: str = "") -> str:
        if codes:
            width = struct.calcsize("<" + codes)
            self._put(1, f"{names.strip()} = {self._struct(codes, 'unpack_from')}(meta, {at})")
            step = str(width) if at == "0" else f"at + {width}"
            self._put(1, f"start = {step}" if blob else f"at = {step}")
        if blob:
            self._put(1, "at = start + size", f"{blob} = meta[start:at]")
        return "at"

    def _entry_functions(self) -> None:
        for block in (item for item in self.fmt.meta_items if isinstance(item, Packed)):
            self._read_entries(block)
            self._recall_entries(block)
            self._write_entries(block)

    def _read_entries(self, block: Packed) -> None:
        self._put(0, "", f"def read_{block.name}(meta, at, count):", "    entries = []")
        self._put(1, "for _ in range(count):")
        codes, names = "I", "entry_size, "
        first = True
        for entry in block.entry:
            if entry.type.is_number:
                codes, names = codes + entry.type.code, f"{names}{entry.name}, "
                continue
            width = struct.calcsize("<" + codes + "I")
            self._put(2, f"{names}size, = {self._struct(codes + 'I', 'unpack_from')}(meta, at)")
            if first:
                self._put(2, "stop = at + 4 + entry_size")
            self._put(2, f"start = at + {width}", "at = start + size")
            text = ".decode()" if entry.type is Type.TEXT else ""
            self._put(2, f"{entry.name} = meta[start:at]{text}")
            codes, names, first = "", "", False
        assert not codes, "an entry ends with a blob"
        self._put(2, "if at > stop:", "    raise Suspect", "at = stop")
        columns = {entry.name: entry.name for entry in block.entry}
        self._put(2, f"entries.append({_entry_type(block.name)}({_in_order(block.name, columns)}))")
        self._put(1, "return at, tuple(entries)")

    def _recall_entries(self, block: Packed) -> None:
        name = block.name
        self._put(0, "", f"recent_{name} = {{}}", "", f"def known_{name}(raw, count, max_entries):")
        self._put(1, "if count > max_entries:", "    raise Suspect", f"entries = recent_{name}.get(raw)")
        self._put(1, "if entries is not None and len(entries) == count:", "    return entries")
        self._put(1, f"at, entries = read_{name}(raw, 0, count)", "if at != len(raw):", "    raise Suspect")
        self._put(1, "if len(raw) <= LONGEST_KEPT:", f"    if len(recent_{name}) >= ENTRIES_KEPT:")
        self._put(3, f"recent_{name}.clear()")
        self._put(2, f"recent_{name}[raw] = entries")
        self._put(1, "return entries")

    # -- the meta frame: writing

    def _shapes(self) -> None:
        """One struct for each combination of lengths: a whole meta frame is then packed, or unpacked, by one call."""
        codes = "<" + "".join("%ds" if code == "blob" else code for code in self._meta_codes())
        self._put(0, "", "shapes = {}", "", "def new_shape(shape):")
        self._put(1, "if len(shapes) >= SHAPES_KEPT:", "    shapes.clear()")
        self._put(1, f"pack = shapes[shape] = Struct('{codes}' % shape).pack", "return pack")
        blocks = [place for place, item in enumerate(self._blobs()) if isinstance(item, Packed)]
        sizes = [f"shape[{place}]" for place in range(len(self._blobs())) if place not in blocks]
        known = codes.replace("<H", "<2x", 1).replace("i%ds", "I%ds")  # the number of the format is known by now
        self._put(0, "", "layouts = {}", "", "def learn(length, shape):")
        self._put(1, "if len(layouts) >= SHAPES_KEPT:", "    layouts.clear()")
        self._put(1, f"layouts[length] = (Struct('{known}' % shape).unpack, ({', '.join(sizes)}))")

    def _meta_codes(self) -> list[str]:
        codes: list[str] = []
        for item in self.fmt.meta_items:
            if isinstance(item, Packed):
                codes.append("blob")
            elif item[0].bit is not None:
                codes.append(_lanes(item)[0])
            else:
                codes += [item[0].type.code] if item[0].type.is_number else ["i", "blob"]
        return codes

    def _encode_meta(self) -> None:
        self._put(0, "", "def encode(m):")
        self._refuse_not_carried()
        self._put(1, "body_frames = m.body_frames", "body_frames_count = len(body_frames)")
        self._put(1, "if not body_frames_count:", "    raise Suspect")
        self._put(1, f"body_frames_offset = {self.fmt.tail} + len(m.extensions) + body_frames_count")
        shape: list[str] = []
        values: list[str] = []
        for item in self.fmt.meta_items:
            if isinstance(item, Packed):
                self._put(1, f"{item.name} = m.{item.name}", f"{item.name}_count = len({item.name})")
                self._put(1, f"{item.name} = written_{item.name}({item.name}) if {item.name}_count else b''")
                shape.append(f"len({item.name})")
                values.append(item.name)
            elif item[0].bit is None and not item[0].type.is_number:
                text = ".encode()" if item[0].type is Type.TEXT else ""
                size = f"size_{len(shape)}"
                self._put(1, f"{item[0].name} = m.{item[0].name}{text}", f"{size} = len({item[0].name})")
                shape.append(size)
                values += [size, item[0].name]
            else:
                values += [self._meta_value(field) for field in item if field.name]
        self._put(1, f"shape = ({', '.join(shape)})", "pack = shapes.get(shape) or new_shape(shape)")
        self._put(1, f"meta = pack({', '.join(values)})")
        self._put(1, "return [m.socket_identity, b'', *body_frames, *m.extensions, meta]")

    def _meta_value(self, field: Field) -> str:
        return str(self.fmt.number) if field is self.fmt.number_field else self._value(field)

    def _write_entries(self, block: Packed) -> None:
        self._put(0, "", f"def write_{block.name}(entries):", "    parts = []", "    for e in entries:")
        codes, values, parts = "I", ["entry_size"], []
        width = 0
        for entry in block.entry:
            if entry.type.is_number:
                codes += entry.type.code
                values.append(f"e.{entry.name}")
                width += struct.calcsize(entry.type.code)
            else:
                text = ".encode()" if entry.type is Type.TEXT else ""
                self._put(2, f"{entry.name} = e.{entry.name}{text}")
                pack = self._struct(codes + "I", "pack")
                parts += [f"{pack}({', '.join([*values, f'len({entry.name})'])})", entry.name]
                codes, values, width = "", [], width + 4
        blobs = " + ".join(f"len({entry.name})" for entry in block.entry if not entry.type.is_number)
        self._put(2, f"entry_size = {width} + {blobs}", f"parts += ({', '.join(parts)})")
        self._put(1, "return b''.join(parts)")
        self._put(0, "", f"lately_{block.name} = {{}}", "", f"def written_{block.name}(entries):")
        self._put(
            1,
            "entries = tuple(entries)",
            f"raw = lately_{block.name}.get(entries)",
            "if raw is None:",
            f"    raw = write_{block.name}(entries)",
        )
        self._put(2, "if len(raw) <= LONGEST_KEPT:", f"    if len(lately_{block.name}) >= ENTRIES_KEPT:")
        self._put(4, f"lately_{block.name}.clear()")
        self._put(3, f"lately_{block.name}[entries] = raw")
        self._put(1, "return raw")


def _lanes(word: Word) -> tuple[str, str]:
    """The struct codes and the names of a word of lanes; lanes without a name are padding."""
    named = {field.lane_byte // 2: _variable(field.name) for field in word if field.name}
    codes = "".join("H" if lane in named else "2x" for lane in range(4))
    return codes, "".join(f"{named[lane]}, " for lane in sorted(named))


def _code_at(codes: str, lane: int) -> str:
    return codes.replace("2x", "x")[lane]


def _entry_type(block: str) -> str:
    return str(ENTRY_TYPES[block].__name__)


def _in_order(block: str, columns: dict[str, str]) -> str:
    """The values of an entry in the order in which its type takes them."""
    return ", ".join(columns[name] for name in ENTRY_TYPES[block].__struct_fields__)
