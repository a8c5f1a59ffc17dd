"""A secret in the environment: set in the dashboard or by the command line, never in the code."""

import hashlib
import hmac
import os


def run(message: str):
    """Signs a message with a key that the caller never sees."""
    key = os.environ.get("SIGNING_KEY")
    if not key:
        raise RuntimeError("SIGNING_KEY is not set: millrace secrets set SIGNING_KEY=… and deploy again")
    signature = hmac.new(key.encode(), message.encode(), hashlib.sha256).hexdigest()
    return {"message": message, "signature": signature}
