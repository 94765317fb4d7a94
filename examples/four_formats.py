"""One message in all four wire formats: where each value stands, and what it says."""

from __future__ import annotations

import random

from hopwire.model import Message
from hopwire.report import rows_from_dissection
from hopwire.wire import FORMATS, V6, encode
from hopwire.wire.dissect import dissect
from hopwire.wire.samples import sample_message


def main() -> None:
    places: dict[str, dict[str, str]] = {}
    for fmt in FORMATS:
        frames = encode(sample_message(fmt, random.Random(7)), fmt)
        for row in rows_from_dissection(dissect(frames), 40):
            is_whole = row.stop - row.start == len(frames[row.frame])
            place = row.position if is_whole else f"{row.position} {row.start}:{row.stop}"
            places.setdefault(row.name, {})[fmt.name] = place
            if fmt is V6:
                places[row.name]["meaning"] = row.meaning
    print(f"{'field':<32}" + "".join(f"{fmt.name:<13}" for fmt in FORMATS) + "meaning")
    for name, found in places.items():
        if name in Message.__struct_fields__ and "meaning" in found:
            print(f"{name:<32}" + "".join(f"{found.get(fmt.name, '-'):<13}" for fmt in FORMATS) + found["meaning"])
    print("\nn-6 is the sixth frame from the end, 8:26 are bytes within it.")


if __name__ == "__main__":
    main()
