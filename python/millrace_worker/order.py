"""What the service asks of a process it starts."""

from __future__ import annotations

from typing import Any, Dict, Optional


class Order:
    """One app version's settings, as far as its processes need them."""

    def __init__(self, fields: Dict[str, Any]) -> None:
        self.address: str = fields["address"]
        self.bundle_dir: str = fields["bundle_dir"]
        self.concurrency: int = fields["concurrency"]
        self.ignore_extra: bool = fields["ignore_extra"]
        self.max_result_bytes: int = fields["max_result_bytes"]
        self.max_chunk_bytes: int = fields["max_chunk_bytes"]
        #: Given when this process may become a template.
        self.template_ticket: Optional[str] = fields.get("template_ticket")
        #: For the replica this process becomes, at once or when it may not fork.
        self.replica_ticket: Optional[str] = fields.get("replica_ticket")
