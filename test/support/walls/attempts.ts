/** The beginning of a hostile app: what becomes of an attempt, and a connection to try. */
export const ATTEMPTS = `
import os, socket
def outcome(work):
    try:
        work()
        return "done"
    except OSError as error:
        return type(error).__name__
def connect(family, address):
    with socket.socket(family) as attempt:
        attempt.settimeout(60)
        attempt.connect(address)
`;
