"""What another service can go on with: the template or the app's own server, and what they print."""

from __future__ import annotations

from .lasting import Pipe, Template
from .loop import Loop
from .order import Sitting
from .relay import Relays

#: A service that gives so many signs of life after its template's connection was lost is there, and has given it up.
_BEATS = 2


class Estate:
    """What lasts of a seat."""

    def __init__(self, loop: Loop, relays: Relays) -> None:
        self._loop = loop
        self._relays = relays
        #: What an app's own server prints, by stream; empty where there is none.
        self.pipes: dict[str, Pipe] = {}
        #: Another service has the seat, and has not been told yet that it can go on.
        self.is_open = False
        #: Signs of life since the template's connection was lost.
        self._beats = 0

    @property
    def may_go_on(self) -> bool:
        """Whether another service can have it. A template that does not fork is a replica, and ends with its own."""
        template = self._relays.template
        return len(self.pipes) > 0 if template is None else template.may_go_on

    def open(self) -> None:
        """It is another's from now on: nothing of the one before is passed on any more."""
        self._relays.release()
        self.is_open = True
        self._loop.wake()

    def settle(self, sit: Sitting) -> bool:
        """Passes it on to whom it belongs now, when nothing is left of what was the other's; gives whether it has."""
        template = self._relays.template
        if template is not None and not template.is_alone:
            template.end_children("end")
            return False
        self.is_open = False
        ticket = sit.server.ticket if sit.server else str(sit.order["template_ticket"])
        for kind, pipe in (self.pipes if sit.server else self._relays.kept).items():
            if pipe.is_lost and not pipe.is_over:
                pipe.find()
                self._relays.join(pipe, kind, ticket, pipe.ready if isinstance(pipe, Template) else b"")
        return True

    def hear_beat(self) -> None:
        """A template that its service has let go of, while it goes on with the seat, has nobody to wait for."""
        template = self._relays.template
        if template is None or not template.is_lost or self.is_open:
            self._beats = 0
            return
        self._beats += 1
        if self._beats >= _BEATS:
            template.leave()

    def come_back(self) -> None:
        """The service that has the seat goes on with it. What it has lost meanwhile, it does not want any more."""
        template = self._relays.template
        if template is not None:
            template.leave()
