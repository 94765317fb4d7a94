"""The settings of a build: every option once, with its default and its meaning."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hopwire.disk import OWNER_ONLY, check_mode
from hopwire.errors import SettingsError
from hopwire.flows.rules import Rules
from hopwire.model.units import MEBIBYTE, NS_PER_SECOND
from hopwire.routing import HOP_LIMIT

__all__ = ["LakeSettings"]

RULES = Rules()  # what judging depends on, by default
PATIENCE, PATIENCE_WITHOUT_TTL, DUPLICATE_WINDOW = (
    each / NS_PER_SECOND for each in (RULES.patience_ns, RULES.patience_without_ttl_ns, RULES.duplicate_window_ns)
)
MAY_BE_NONE = ("keep_days",)
COMPRESSIONS = ("lz4", "zstd", "none")


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """How the lake is built."""

    batch_rows: int = 16_384  # of one Arrow batch; decode_batch is quickest with 4,000 to 30,000
    batch_bytes: int = 32 * MEBIBYTE  # of one Arrow batch, unless a single message is larger
    task_bytes: int = 64 * MEBIBYTE  # of captures for one task, unless a single source is larger
    row_group_bytes: int = 64 * MEBIBYTE  # of values in one row group of Parquet, before compression
    compression: str = "lz4"  # of Parquet: lz4, zstd (smaller and slower) or none
    patience_seconds: float = PATIENCE  # a message may take so long from node to node before it counts as lost
    patience_without_ttl_seconds: float = PATIENCE_WITHOUT_TTL  # a request without a TTL may wait so long
    duplicate_window_seconds: float = DUPLICATE_WINDOW  # a signature again so soon is a duplicate, later a replay
    hop_limit: int = HOP_LIMIT  # more hops than this are a loop
    max_flow_rows: int = RULES.max_flow_rows  # steps of one flow that are put into its tree; totals count all steps
    step_rows: int = 500_000  # sightings that one process judges, new or of open flows; Spark judges more than these
    keep_snapshots: int = 5  # old states of the lake that stay readable, however old they are
    keep_seconds: float = 3600.0  # every state of the lake stays readable for so long, however many there are
    keep_days: int = 0  # what is older than so many days leaves the lake with the first build of a day; 0: never
    file_mode: int = OWNER_ONLY  # of new files, whatever the umask; readers of a file may enter its directory

    def __post_init__(self) -> None:
        if self.compression not in COMPRESSIONS:
            raise SettingsError(f"compression must be {' or '.join(COMPRESSIONS)}, not {self.compression!r:.40}")
        check_mode(self.file_mode)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "compression" or (field.name in MAY_BE_NONE and value == 0):
                continue
            if not (isinstance(value, int | float) and value > 0):
                raise SettingsError(f"{field.name} must be a positive number, not {value!r}")

    @property
    def rules(self) -> Rules:
        """The rules by which hops, requests and flows are judged."""
        return Rules(
            patience_ns=round(self.patience_seconds * NS_PER_SECOND),
            patience_without_ttl_ns=round(self.patience_without_ttl_seconds * NS_PER_SECOND),
            duplicate_window_ns=round(self.duplicate_window_seconds * NS_PER_SECOND),
            hop_limit=self.hop_limit,
            max_flow_rows=self.max_flow_rows,
        )
