"""What an agent and the service on its own machine say to each other: lines of JSON over a pair of sockets.

`docs/wire.md` has the words, which are those of agents on other machines.
"""

from __future__ import annotations

import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Answers(Protocol):
        """What an agent can be asked."""

        def look(self, pid: int) -> dict[str, Any]: ...

        def where(self) -> dict[str, Any]: ...

        def ask(self) -> None: ...

        def fork(self, ticket: str) -> None: ...

        def lend(self, ticket: str, path: str) -> None: ...


_BYTES = 64 * 1024


class Service:
    """The agent's end. What reads and writes JSON is imported when the first line comes: few agents get one."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._rest = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def hear(self, answers: Answers, flags: int = 0) -> bool:
        """Takes what has come; false when the service is gone. Waits for something, unless `flags` says otherwise."""
        try:
            data = self._socket.recv(_BYTES, flags)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._obey(line, answers)
        return bool(data)

    def say(self, word: str, value: Any) -> None:
        """One message."""
        import json

        try:
            self._socket.sendall(json.dumps({word: value}).encode() + b"\n")
        except OSError:
            pass  # It is gone, or about to be.

    def _obey(self, line: bytes, answers: Answers) -> None:
        import json

        ((word, value),) = json.loads(line).items()
        if word == "look":
            self.say("seen", {"id": int(value["id"]), **answers.look(int(value["pid"]))})
        elif word == "where":
            self.say("at", {"id": int(value["id"]), **answers.where()})
        elif word == "ask":
            answers.ask()
        elif word == "fork":
            answers.fork(str(value["ticket"]))
        elif word == "lend":
            answers.lend(str(value["ticket"]), str(value["path"]))
