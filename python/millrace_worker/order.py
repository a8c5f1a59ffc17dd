"""What the service asks of a process it starts."""

from __future__ import annotations

from typing import Any


class Order:
    """One app version's settings, as far as its processes need them."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.address: str = fields["address"]
        self.bundle_dir: str = fields["bundle_dir"]
        self.concurrency: int = fields["concurrency"]
        self.ignore_extra: bool = fields["ignore_extra"]
        self.max_result_bytes: int = fields["max_result_bytes"]
        self.max_chunk_bytes: int = fields["max_chunk_bytes"]
        #: Whether the process above this one is its keeper; if not, this one becomes a keeper first.
        self.is_kept: bool = fields.get("kept") is True
        #: Given when this process may become a template.
        self.template_ticket: str | None = fields.get("template_ticket")
        #: For the replica this process becomes, at once or when it may not fork.
        self.replica_ticket: str | None = fields.get("replica_ticket")
