"""Two services as two processes: orders asks payments, and then tells it to end by SIGTERM.

    python two_processes.py                      orders; it starts payments too
    python two_processes.py payments ORDERS DIR  payments alone; ORDERS is the address of orders

Both have a name, sign with the keys of one file of domains, and capture into one directory.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import tempfile
from pathlib import Path

import hopwire as hw

DOMAINS = """
[domains.payments]
identities = ["payments.*"]
keys = [{ id = "2026-01", secret_name = "PAYMENTS_KEY" }]

[domains.network]
identities = ["hopwire.*"]
keys = [{ id = "2026-01", secret_name = "NETWORK_KEY" }]
"""


class Charge(hw.Payload, identity="payments.charge", version=1):
    account: str
    amount: int


class Charged(hw.Payload, identity="payments.charged", version=1):
    total: int


class Payments(hw.Actor):
    total = 0

    @hw.handles
    async def charge(self, request: Charge) -> Charged:
        self.total += request.amount
        return Charged(self.total)


async def orders(folder: Path) -> None:
    (folder / "domains.toml").write_text(DOMAINS, "utf-8")
    os.environ |= {
        "PAYMENTS_KEY": secrets.token_hex(),
        "NETWORK_KEY": secrets.token_hex(),
    }  # yours come from a safe place
    async with hw.Node(name="orders", capture=folder / "capture", domains=folder / "domains.toml") as node:
        payments = await asyncio.create_subprocess_exec(sys.executable, __file__, "payments", node.uri, str(folder))
        print(await node.knows(Charge, timeout=20))
        for amount in (5, 7):
            print(await node.hub().ask(Charge("ada", amount), Charged))
        payments.send_signal(signal.SIGTERM)
        print("payments ended with", await payments.wait())
    print("captured by both:", sorted({path.name for path in (folder / "capture").glob(".*.identity")}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["payments"]:
        capture, domains = (str(Path(sys.argv[3]) / name) for name in ("capture", "domains.toml"))
        hw.run(Payments, name="payments", peers=[sys.argv[2]], capture=capture, domains=domains, log_level="warning")
    else:
        with tempfile.TemporaryDirectory() as made:
            asyncio.run(orders(Path(made)))
