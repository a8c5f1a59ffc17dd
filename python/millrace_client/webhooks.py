"""Verifies the webhooks that a Millrace service sends."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Iterable
from typing import Protocol

from .errors import InvalidWebhook


class _Headers(Protocol):
    def items(self) -> Iterable[tuple[str, str]]: ...


def verify_webhook(
    secret: str | Iterable[str],
    headers: _Headers,
    body: str | bytes | bytearray | memoryview,
    *,
    tolerance_seconds: float = 300,
    now: float | None = None,
) -> str:
    """Returns the run's id if one of the secrets signed the body's bytes recently; otherwise raises `InvalidWebhook`.
    Give one secret or a list: `whsec_…`, or the X-Webhook-Secret of your call."""
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets or "" in secrets:
        raise ValueError("Give at least one secret; none may be empty.")
    sent = {name.lower(): value for name, value in headers.items()}
    run_id = sent.get("webhook-id") or sent.get("x-request-id") or ""
    data = body.encode() if isinstance(body, str) else bytes(body)
    fault = "no signature matches the secret."
    for form in ("", "x-cerebrium-"):
        timestamp = sent.get(f"{form}webhook-timestamp", "")
        given = sent.get(f"{form}webhook-signature", "").split(" ")[:32]
        if not timestamp.isdecimal():
            continue
        signed = f"{run_id}.{timestamp}.".encode() + data
        expected = [_signature(one, signed, bool(form)) for one in secrets]
        pairs = [(entry.encode(), own) for entry in given for own in expected if own]
        # Every pair is compared, each in full, so that the time it takes reveals nothing.
        if not any([hmac.compare_digest(*pair) for pair in pairs]):  # noqa: C419 - without a list it would stop early
            continue
        if abs((time.time() if now is None else now) - int(timestamp)) <= tolerance_seconds:
            return run_id
        fault = "its timestamp is too far from the current time."
    raise InvalidWebhook("invalid_webhook", f"The webhook is not genuine: {fault}")


def _signature(secret: str, signed: bytes, is_hex: bool) -> bytes | None:
    if is_hex:
        return b"v1," + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest().encode()
    if not secret.startswith("whsec_"):
        return None
    key = base64.b64decode(secret[len("whsec_") :])
    return b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
