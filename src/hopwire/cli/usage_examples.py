"""One example for each command, which its `--help` ends with, and what somebody would try first.

The tests hold that every command has an example, and that the example can be read by the command.
"""

from __future__ import annotations

__all__ = ["EXAMPLES", "FIRST_STEPS", "example_of", "first_steps"]

# fmt: off
EXAMPLES = {
    "decode":        "hopwire decode --file recording.pcapng",
    "encode":        "hopwire encode --to V5 --file messages.jsonl",
    "wireshark":     "hopwire wireshark --output hopwire.lua",
    "reasons":       "hopwire reasons no_route",
    "demo":          "hopwire demo --keep demo",
    "simulate":      "hopwire simulate network --messages 100000 --faults loss,replay=0.01",
    "rendezvous":    "hopwire rendezvous --listen tcp://0.0.0.0:7400 --domains domains.toml",
    "node":          "hopwire node shop.actors:Till --listen tcp://127.0.0.1:7400 --capture captures",
    "ask":           "hopwire ask tcp://127.0.0.1:7400 shop.price@1 '{\"article\": \"tea\"}' --reply shop.offer@1",
    "send":          "hopwire send tcp://127.0.0.1:7400 shop.order@1 '{\"article\": \"tea\"}' --at-least-once",
    "tell":          "hopwire tell tcp://127.0.0.1:7400 shop.opened@1 '{}' --all",
    "listen":        "hopwire listen tcp://127.0.0.1:7400 shop.opened@1 --count 10",
    "members":       "hopwire members tcp://127.0.0.1:7400",
    "routes":        "hopwire routes tcp://127.0.0.1:7400 --contract shop.price",
    "trace":         "hopwire trace tcp://127.0.0.1:7400 shop.price@1",
    "doctor":        "hopwire doctor tcp://127.0.0.1:7400 --domains domains.toml",
    "top":           "hopwire top tcp://127.0.0.1:7400",
    "capture ls":    "hopwire capture ls captures",
    "capture cat":   "hopwire capture cat captures --node till --limit 50",
    "lake build":    "hopwire lake build captures lake",
    "lake follow":   "hopwire lake follow captures lake --metrics 9100",
    "lake status":   "hopwire lake status lake",
    "lake sql":      "hopwire lake sql \"select outcome, count(*) from requests group by outcome\" lake",
    "ui":            "hopwire ui lake --captures captures",
    "lake tables":   "hopwire lake tables lake",
    "lake check":    "hopwire lake check lake network",
    "lake compact":  "hopwire lake compact lake",
    "lake expire":   "hopwire lake expire lake --before 2026-01-01 --dry-run",
    "lake forget":   "hopwire lake forget lake --flow order-4711",
    "keys new":      "hopwire keys new domain orders --dir keys --identity 'orders.*'",
    "keys sign":     "hopwire keys sign till --dir keys --hosts orders",
    "keys list":     "hopwire keys list --dir keys",
    "keys revoke":   "hopwire keys revoke till --dir keys",
    "keys use":      "hopwire keys use orders-2 --dir keys",
    "keys show":     "hopwire keys show orders --dir keys",
    "flows ls":      "hopwire flows ls lake --outcome lost --from 2026-01-31T12:00",
    "flows show":    "hopwire flows show lake 7f3a",
    "flows lives":   "hopwire flows lives captures",
    "flows latencies": "hopwire flows latencies lake --from 2026-01-31T12:00 --to 2026-01-31T13:00",
    "flows export":  "hopwire flows export lake --outcome lost --to otlp --endpoint http://localhost:4318",
    "config show":   "hopwire config show shop.actors:Till --config node.toml",
}
FIRST_STEPS = (
    # a command                                 what it does
    ("hopwire demo",                            "a network that breaks, explained"),
    ("hopwire simulate network",                "captures of a network that never ran"),
    ("hopwire node shop.actors:Till",           "run your own actors"),
    ("hopwire doctor tcp://127.0.0.1:7400",     "what keeps nodes apart"),
    ("hopwire capture ls captures",             "what nodes have written down"),
    ("hopwire lake build captures lake",        "tables of every hop, loss and clock"),
    ("hopwire flows ls lake --outcome lost",    "what was lost, and where"),
    ("hopwire ui lake",                         "all of it in a browser"),
    ("hopwire decode --file recording.pcapng",  "every byte of a message by its name"),
    ("hopwire reasons no_route",                "what a reason means, what to do"),
)
# fmt: on


def example_of(command: str) -> str:
    """Give the last lines of a help; of a group, the example of its first command."""
    found = [line for name, line in EXAMPLES.items() if f"{name} ".startswith(f"{command} ")]
    return f"Example:\n\n\b\n  {found[0]}" if found else ""


def first_steps() -> str:
    """Give what `hopwire` says when nothing was asked of it."""
    width = max(len(command) for command, _ in FIRST_STEPS)
    lines = [f"  {command:<{width}}  {what}" for command, what in FIRST_STEPS]
    head = "A message network for Python actors, and the tools to look into what it says."
    foot = "All commands: hopwire --help. An example of each: hopwire COMMAND --help."
    return "\n".join([head, "", "What to try first:", "", *lines, "", foot])
