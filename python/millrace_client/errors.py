"""The errors that this package raises, and which code of the service belongs to which class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class MillraceError(Exception):
    """Everything this package raises. Branch on the class or on `code`."""

    def __init__(
        self,
        code: str,
        message: str,
        status: int | None = None,
        request_id: str | None = None,
        details: Sequence[Any] = (),
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.status, self.request_id = code, status, request_id
        self.details, self.retry_after_seconds = details, retry_after_seconds


# fmt: off
class Unauthorized(MillraceError): """The token is missing, revoked, or not allowed to do that."""
class NotFound(MillraceError): """There is no such app, function or run, or its payload was not kept."""
class InvalidArguments(MillraceError): """The arguments do not fit the function; `details` names each one."""
class AppFailed(MillraceError): """The function raised, crashed, or returned something that cannot be sent."""
class NotReady(MillraceError): """The app's own code failed when it was loaded."""
class Busy(MillraceError): """The service cannot take the call now; see `retry_after_seconds`."""
class TimedOut(MillraceError): """The run exceeded its `response_grace_period`."""
class Cancelled(MillraceError): """The run was cancelled."""
class ConnectionLost(MillraceError): """It broke: `connection_lost`; the rest of a stream is gone: `stream_lost`."""
class InvalidWebhook(MillraceError): """Not signed with the secret, or an old request sent again."""
# fmt: on


_CODES = {
    Unauthorized: "unauthorized forbidden",
    NotFound: "not_found app_not_found function_not_found run_not_found payload_not_kept",
    InvalidArguments: "invalid_arguments",
    AppFailed: "app_error result_not_json result_too_large app_crashed bad_app_response out_of_memory out_of_gpu_memory",  # noqa: E501
    NotReady: "app_not_ready",
    Busy: "too_many_requests queue_full queue_timeout queue_draining backlog_full quota_exceeded no_gpu_free draining interrupted storage_unavailable",  # noqa: E501
    TimedOut: "timed_out",
    Cancelled: "cancelled",
}
_KINDS: dict[str, type[MillraceError]] = {code: kind for kind, codes in _CODES.items() for code in codes.split()}


def kind_of(code: str) -> type[MillraceError]:
    """The class for a code of the service; `MillraceError` if the code has none of its own."""
    return _KINDS.get(code, MillraceError)


def lost(message: str, request_id: str | None = None, code: str = "connection_lost") -> ConnectionLost:
    """The error for a connection that broke, or for a stream whose rest is gone."""
    return ConnectionLost(code, message, request_id=request_id)


def is_passing(error: MillraceError) -> bool:
    """Whether the same request may succeed a little later."""
    if error.code == "unexpected_answer":
        return error.status in (429, 502, 503, 504)
    return isinstance(error, Busy) or error.code == "connection_lost"
