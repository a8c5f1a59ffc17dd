"""What the service tells the outer keeper: what to run, and behind which walls."""

from __future__ import annotations

# Not at run time: each start of an app waits for this file's imports.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Plan:
    """One process to be: its program and its walls. All of it comes from the service, which is trusted."""

    def __init__(self, fields: dict[str, Any]) -> None:
        #: `process`, `landlock` or `userns`; each includes those before it.
        self.rung: str = fields["rung"]
        #: Whether the app may use the internet.
        self.network: bool = fields["network"]
        #: Where the service listens for its replicas.
        self.home: str = fields["home"]
        #: The app's interpreter, the arguments after it and its whole environment.
        self.program: str = fields["program"]
        self.arguments: list[str] = fields["arguments"]
        self.environment_variables: dict[str, str] = fields["environment_variables"]
        #: One line for its stdin.
        self.order: str = fields["order"]
        #: Folders that it reads: the app's code, its packages (null for none), the harness.
        self.bundle: str = fields["bundle"]
        self.environment: str | None = fields["environment"]
        self.harness: str = fields["harness"]
        #: Folders that it writes.
        self.storage: str = fields["storage"]
        self.scratch: str = fields["scratch"]
        #: Where everybody else's is: nothing that holds this folder may be read.
        self.data_dir: str = fields["data_dir"]
