"""Writes the documents that are derived from the code: `make docs`. `make check` fails when one of them is stale."""

from __future__ import annotations

import ast
import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path

os.environ["COLUMNS"] = "100"  # --help is as wide on every machine

import api_page
import comparison_page
import option_tables
import typer.main
from table_questions import QUESTIONS

from hopwire.cli.exits import EXIT_CODES
from hopwire.cli.main import COMMANDS, GROUPS, run
from hopwire.cli.usage_examples import first_steps
from hopwire.flows.findings import KINDS as FINDINGS
from hopwire.flows.schemas import FATES, FLOW_OUTCOMES
from hopwire.lake.tables import LAYERS, Table, all_tables
from hopwire.model.reasons import REASONS
from hopwire.simulate.faults import FAULTS
from hopwire.simulate.kinds import KINDS
from hopwire.simulate.shapes import Kind
from hopwire.simulate.truth import COLUMNS as TRUTH_COLUMNS
from hopwire.wire import FORMATS, SCHEMA, WireFormat
from hopwire.wire.schema import Entry, Field, FromEnd, Packed, Run, Type

HERE = Path(__file__).parent
NOTE = "<!-- made by `make docs`; change the code, not this page -->\n"


def formats() -> str:
    """The four formats, as the tables have them."""
    parts = [NOTE, "# The wire formats\n", FORMATS_INTRODUCTION]
    parts += [_format(fmt) for fmt in FORMATS]
    return "\n".join(parts)


FORMATS_INTRODUCTION = """\
The documents beside this page ([V3](v3.txt), [V4](v4.txt), [V5](v5.txt), [V6](v6.txt)) are the specification. This
page shows the same rows with what the documents leave open: types, widths and the names used in hopwire.

- Integers are little-endian. A lane names its bits within a 64-bit word; bits 1-16 are the first two bytes.
- `n-k` counts from the end of the frames; so does every offset. An offset names the last frame of the last entry of a
  block, and the first frame of the body. Any number of frames may stand in front.
- In a meta frame `raw` and `text` stand behind their length (i32). Entries stand behind their size (i32).
- TTL counts ticks of 100 ns in all four formats; 0 means no limit.
- A row marked * is a route selector.
"""


def _format(fmt: WireFormat) -> str:
    spellings = [f"`{spelling.hex(' ')}`" for spelling in fmt.numbers]
    number = spellings[0] + (f", on read also {' or '.join(spellings[1:])}" if spellings[1:] else "")
    lines = [f"## {fmt.name}\n", f"Told by the number {number}. {_losses(fmt)}\n"]
    lines += ["| frame | bits | content | type | | in the document |", "|---|---|---|---|---|---|"]
    for row in fmt.rows:
        if isinstance(row, Field):
            lines.append(_field_line(row))
            continue
        if isinstance(row, Packed):
            lines.append(f"| | | each `{row.name}`: size | i32 | | {row.title} |")
        lines += [_entry_line(row, entry) for entry in row.entry]
    return "\n".join(lines) + "\n"


def _losses(fmt: WireFormat) -> str:
    names = ", ".join(f"`{name}`" for name in fmt.not_carried)
    return f"Cannot carry {names}." if names else "Carries every field of a message."


def _field_line(field: Field) -> str:
    place = f"{field.frame}" if isinstance(field.frame, FromEnd | int) else "meta"
    bits = f"{field.bit}-{field.bit + 15}" if field.bit else ""
    name = f"`{field.name}`" if field.name else ""
    star = "*" if field.is_selector else ""
    return f"| {place} | {bits} | {name} | {_type(field.type)} | {star} | {field.title} |"


def _entry_line(block: Run | Packed, entry: Entry) -> str:
    return f"| | | each `{block.name}`: `{entry.name}` | {_type(entry.type)} | | {entry.title} |"


def _type(kind: Type) -> str:
    return kind.word


def reasons() -> str:
    """Every reason code."""
    parts = [NOTE, "# Reason codes\n", REASONS_INTRODUCTION]
    for found, alike in groupby(REASONS, attrgetter("found")):
        parts += [f"## {found.capitalize()}\n", "| code | meaning | who sees it | what to do |", "|---|---|---|---|"]
        parts += [f"| `{each.code}` | {each.meaning} | {each.seen_by} | {each.remedy} |" for each in alike]
        parts.append("")
    return "\n".join(parts)


REASONS_INTRODUCTION = """\
`decode` raises a `WireError` with one of these as its `reason`, with `frame` and `byte` where a place can be named;
`decode_batch` puts the same into the columns `reason`, `reason_frame` and `reason_byte`. Errors of a hub
(`NoRoute`, `Expired` and so on) have `reason` too. The dead letters of a node are counted by reason in its metrics, the
latest are kept in `Node.dead_letters`, and each is in its capture. The codes are stable: new ones may come, none is
renamed. `hopwire reasons CODE` says the same in a terminal.
"""


def calls() -> str:
    """Every call and option."""
    return f"{NOTE}\n{option_tables.calls()}"


def settings() -> str:
    """Every option of a node that is run."""
    return f"{NOTE}\n{option_tables.run_options()}"


def api() -> str:
    """Every public name, with what it says of itself."""
    return f"{NOTE}\n{api_page.api()}"


def comparisons() -> str:
    """hopwire beside others, with the figures of the benchmarks."""
    return f"{NOTE}\n{comparison_page.comparisons()}"


def decisions() -> str:
    """Every decision, by its number."""
    lines = [
        NOTE,
        "# Decisions\n",
        "Context, decision, consequences: one page for each.\n",
        "| number | decision |",
        "|---|---|",
    ]
    for path in sorted((HERE / "decisions").glob("[0-9]*.md")):
        number, _, title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").partition(": ")
        lines.append(f"| {number} | [{title}]({path.name}) |")
    return "\n".join(lines) + "\n"


def notebook() -> str:
    """The cells of the notebook."""
    parts = [NOTE]
    for cell in json.loads((HERE.parent / "examples" / "lake.ipynb").read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(f"```python\n{text}\n```\n" if cell["cell_type"] == "code" else f"{text}\n")
    return "\n".join(parts)


def columns() -> str:
    """The columns of a decoded batch."""
    parts = [NOTE, "# Columns of a decoded batch\n", COLUMNS_INTRODUCTION, "| column | Arrow type |", "|---|---|"]
    parts += [f"| `{column.name}` | `{column.type}` |" for column in SCHEMA]
    return "\n".join(parts) + "\n"


COLUMNS_INTRODUCTION = """\
`decode_batch` gives one row for each message, with these columns, in this order. A row that is not a message has nulls
everywhere but in the last three. `version` is set for V5 and V6, `version_raw` for V3 and V4.
"""


def commands() -> str:
    """Every --help."""
    parts = [NOTE, "# The command line\n", COMMANDS_INTRODUCTION]
    parts += [f"| {code:d} | {meaning} |" for code, meaning in EXIT_CODES.items()] + [""]
    parts += ["## First steps\n", "```", first_steps(), "```\n"]
    vars(typer.main)["get_command"] = cache(typer.main.get_command)  # or each help makes the tree of all commands
    alone = [[command.__name__] for command in COMMANDS]
    grouped = [[name, *rest] for name, (_, group) in GROUPS.items() for rest in ([], *([c.__name__] for c in group))]
    for arguments in ([], *alone, *grouped):
        with redirect_stdout(io.StringIO()) as shown:
            run([*arguments, "--help"])
        parts += [f"## hopwire {' '.join(arguments)}".rstrip() + "\n", "```", shown.getvalue().strip(), "```\n"]
    return "\n".join(parts)


COMMANDS_INTRODUCTION = """\
`pip install "hopwire[cli]"` brings the command `hopwire`. Output for programs: `--json`. What is wrong is said in one
line on stderr, with a remedy. `hopwire --install-completion` teaches bash, zsh, fish and PowerShell to complete
commands and options; open a new terminal after it. `hopwire --show-completion` prints what would be installed.

| exit code | meaning |
|---|---|"""


def tables() -> str:
    """Every table of the lake."""
    parts = [NOTE, "# The tables of the lake\n", TABLES_INTRODUCTION]
    declared = sorted(all_tables().values(), key=_name)
    parts += [_table(table) for layer in LAYERS for table in declared if table.layer == layer]
    parts += [_words("Fates of a hop", FATES), _words("Outcomes", FLOW_OUTCOMES), _words("Findings", FINDINGS)]
    return "\n".join(parts)


def _name(table: Table) -> str:
    return table.name


def _words(title: str, words: Mapping[str, str]) -> str:
    lines = [f"## {title}\n", "| word | meaning |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{word}` | {meaning} |" for word, meaning in words.items())]) + "\n"


def _table(table: Table) -> str:
    key = ", ".join(f"`{name}`" for name in table.key)
    reads = ", ".join(f"[{name}](#{name.replace('.', '')})" for name in table.reads) or "the captures"
    lines = [f"## {table.name}\n", f"{table.meaning}\n", f"Key: {key}. Made from: {reads}.\n"]
    lines += ["| column | Arrow type | meaning |", "|---|---|---|"]
    lines += [f"| `{column.name}` | `{column.type}` | {column.meaning} |" for column in table.stored_columns]
    question, select = QUESTIONS[table.name]
    lines += ["", "```sql", f"-- {question}", f"{select};", "```"]
    return "\n".join(lines) + "\n"


TABLES_INTRODUCTION = """\
`hopwire lake build CAPTURES LAKE` makes these tables. Each is a Delta table below the directory of the lake, so any
engine that knows Delta opens it. A manifest, `_hopwire/manifests/<number>.json`, names the versions of all tables that
belong together.

Times are there twice: as timestamps in UTC, cut off to microseconds, and in nanoseconds since 1970 (`_ns`). So are
identities, nodes and keys: as text, and as bytes for joins. Large tables have `date`, the day in UTC, which finds the
files of a day.

## How to read them

One state of the lake, in which all tables belong together, also while a build is at work:

| with | how |
|---|---|
| SQL, without Spark | `hopwire lake sql "select * from requests where outcome = 'lost' order by asked_at" LAKE` |
| an older state | the same with `--at 7`; `hopwire.lake.read(LAKE, "requests", at=7)` |
| Python | `hopwire.lake.read(LAKE, "requests", "pandas")`, or `"polars"` (a LazyFrame), `"arrow"`, `"spark"` |

One table by its newest version, with any engine. Between two commits of a build, two tables may be of two builds.

| with | how |
|---|---|
| polars | `polars.scan_delta("LAKE/gold/requests")` |
| pandas, Arrow | `deltalake.DeltaTable("LAKE/gold/requests").to_pandas()` |
| DuckDB | `select * from delta_scan('LAKE/gold/requests')`, with its extension `delta` |
| DuckDB, without it | `read_parquet([...])`, with what `deltalake.DeltaTable("LAKE/gold/requests").file_uris()` gives |
| Spark, Databricks | `spark.read.format("delta").load("LAKE/gold/requests")`, with the jar of Delta |
| Trino | `call delta.system.register_table('hopwire', 'requests', 'LAKE/gold/requests')`; LAKE is a URL |

Trino registers tables where its catalog has `delta.register-table-procedure.enabled=true`.

Bodies (`body_frames` of silver.messages) are bytes, as they were sent. Where the class of the payload is at hand,
`hopwire.model.payload.payload_from_body(Order, body)` reads one; otherwise `msgspec.msgpack.decode(body)` gives a map.

Write to the tables with hopwire alone. Do not run OPTIMIZE or VACUUM on them: a build would refuse the table, and old
states could not be read any more.

## Questions

```sql
-- what was lost, and where
select asked_at, contract, home_name, lost_from_name, lost_to_name, reason
from requests where outcome = 'lost' order by asked_at;

-- how long each contract takes
select contract, count(*) as requests, median(latency_us) as median_us, quantile_cont(latency_us, 0.99) as p99_us
from requests where outcome = 'answered' group by contract order by p99_us desc;

-- which way one flow went
select left_at, arrived_at, from_name, to_name, contract, fate
from hops where flow = (select flow from flows order by hop_count desc limit 1) order by left_at;

-- what came with a bad signature, by day
select date, sender_name, finding, sum(message_count) as messages
from security group by all order by date, messages desc;
```

## Bodies

A lake keeps bodies as bytes. Whoever names the payload classes of a contract reads them as JSON, in the columns `body`
and `body_fault` of silver.messages:

| with | how |
|---|---|
| Python | `hopwire.lake.read(LAKE, "messages", "pandas", payloads=[Order, Paid])`, or `"polars"`, `"arrow"` |
| SQL | `hopwire lake sql "select body ->> '$.article' from messages" LAKE --payloads shop.actors` |

## Quantiles over any time

`latency_histogram` of gold.latencies counts answers by bins that are the same in every row and every lake. So the
histograms of any minutes, partitions and lakes are added bin by bin, and a quantile is read from the sum. The quantile
is the end of its bin: never too small, and too large by less than 6.3 %. `hopwire flows latencies LAKE` does the same.

```sql
-- DuckDB: add "where minute >= '2026-01-31 12:00:00+00'" behind "from latencies" for a time
with bins as (
  select contract, bin.up_to_us as up_to_us, sum(bin.answer_count)::bigint as answers
  from (select contract, unnest(latency_histogram) as bin from latencies) group by all
), ranked as (
  select *, sum(answers) over (partition by contract order by up_to_us) as rank,
    sum(answers) over (partition by contract) as total from bins
)
select contract, sum(answers)::bigint as answers, min(up_to_us) filter (where rank >= 0.50 * total) as p50_us,
  min(up_to_us) filter (where rank >= 0.95 * total) as p95_us,
  min(up_to_us) filter (where rank >= 0.99 * total) as p99_us
from ranked group by contract order by p99_us desc;
```

On Spark, write `explode` for `unnest`, `group by contract, bin.up_to_us` for `group by all`, and leave the two
`::bigint` out. Histograms of two lakes: `union all` within the inner select.
"""


def simulation() -> str:
    """What `hopwire simulate` can do to a network, and the truth it writes down."""
    lines = [NOTE, "# Simulated networks\n", SIMULATION_INTRODUCTION, "## Faults\n"]
    lines += ["| fault | rate | of | what happens |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {fault.rate:g} | {fault.of} | {fault.meaning} |" for name, fault in FAULTS.items()]
    lines += ["\n## Flows\n", "| fault | flow | outcome | findings |", "|---|---|---|---|"]
    lines += [_kind_line(kind) for kind in KINDS]
    for name, columns in TRUTH_COLUMNS.items():
        lines += [f"\n## {name}\n", "| column | type | meaning |", "|---|---|---|"]
        lines += [f"| `{column.name}` | {column.type} | {column.meaning} |" for column in columns]
    return "\n".join(lines) + "\n"


def _kind_line(kind: Kind) -> str:
    fault, outcome = kind.fault if kind.fault in FAULTS else "", kind.flow_outcome or kind.outcomes[0]
    return f"| {fault} | {kind.name} | {outcome} | {', '.join(kind.findings)} |"


SIMULATION_INTRODUCTION = """\
`hopwire simulate` writes captures of a network that never was, and beside them what a lake has to find in them. Every
fault has flows of its own; `hopwire lake check` compares.
"""


def modules() -> str:
    """Every module, with the first sentence of what it says of itself."""
    source = HERE.parent / "src" / "hopwire"
    lines = [NOTE, "# The modules\n", "What each room owns and never does is in [ARCHITECTURE](../ARCHITECTURE.md).\n"]
    by_room: dict[str, list[Path]] = {}
    for path in sorted(source.rglob("*.py"), key=lambda path: path.relative_to(source).parts):
        if not path.name.startswith("__"):
            by_room.setdefault(path.relative_to(source).parent.as_posix(), []).append(path)
    for room, paths in by_room.items():
        lines += [f"## {'hopwire' if room == '.' else room}\n", "| module | what is in it |", "|---|---|"]
        lines += [f"| `{path.name}` | {_first_sentence(path)} |" for path in paths] + [""]
    return "\n".join(lines)


def _first_sentence(path: Path) -> str:
    text = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    return " ".join(text.split()).split(". ")[0].rstrip(".:").replace("|", "\\|")


def examples() -> str:
    """Every example, with what one learns from it."""
    lines = [NOTE, "# Examples\n", EXAMPLES_INTRODUCTION, "| program | what it shows |", "|---|---|"]
    here = HERE.parent / "examples"
    others = sorted(path.stem for path in here.glob("*.py") if path.stem not in FIRST_EXAMPLES)
    for name in (*FIRST_EXAMPLES, *others):
        lines.append(f"| [{name}.py]({name}.py) | {_first_sentence(here / f'{name}.py')} |")
    return "\n".join(lines) + "\n"


FIRST_EXAMPLES = (
    "hello",
    "work_queue",
    "scatter_gather",
    "pipeline",
    "streams",
    "keyed",
    "partner_networks",
    "capture_to_report",
)
EXAMPLES_INTRODUCTION = """\
Each program runs by itself, as `python examples/hello.py`, and ends by itself. The first line of each says what one
learns from it. The first eight are a tour. `deploy/` has the files of a service: systemd, Docker and Kubernetes;
`foreign/` has programs that are no nodes.
"""


DOCUMENTS: dict[str, Callable[[], str]] = {
    "wire/formats.md": formats,
    "reasons.md": reasons,
    "calls.md": calls,
    "api.md": api,
    "comparisons.md": comparisons,
    "settings.md": settings,
    "decisions/README.md": decisions,
    "tutorials/notebook.md": notebook,
    "columns.md": columns,
    "cli.md": commands,
    "tables.md": tables,
    "simulation.md": simulation,
    "modules.md": modules,
    "../examples/README.md": examples,
}


def main(arguments: list[str]) -> int:
    """Write every document, or with --check say which is stale."""
    stale = []
    for name, write in DOCUMENTS.items():
        path, text = HERE / name, write()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"stale: {', '.join(f'docs/{name}' for name in stale)}; remedy: make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
