"""Builds and pushes an image with the BuildKit beside the seat, and prints its digest.

The service runs this program in a seat for images, where no code of an app runs, so it may hold the registry's logins.
"""

from __future__ import annotations

import codecs
import json
import os
import socket
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: As first line it hides directives: another frontend than BuildKit's own could ask for any cache.
_NO_DIRECTIVES = b"# Directives are not read.\n"
#: An image below a folder that is the id of any project.
_ANY_PROJECT = r"^docker-image://[^/]+/(.*/)?p-[a-z0-9]{1,40}/"
#: The answer must fit into one line of the seat's output.
_ANSWER_BYTES = 7 * 1024
_PRIVATE = 0o600
#: Where buildctl looks by default.
_SYSTEM_CERTIFICATES = ("/etc/ssl/certs", "/etc/pki/tls/certs")
#: Time for the service to learn from the cluster why BuildKit has ended; it then ends this seat.
_WHY_SECONDS = 30
_BUILDKIT_ENDED = "error: BuildKit ended during the build; deploy again"
_NO_LOGINS = (
    "the Secret that MILLRACE_REGISTRY_SECRET names is not in the namespace where images are built, "
    "or is not of type kubernetes.io/dockerconfigjson"
)


class Refused(Exception):
    """A reason for a person to read."""


def main(words: list[str]) -> int:
    """Carries out the order in the only word; returns the exit code."""
    order = json.loads(words[0])
    aside = order["aside"]
    try:
        # In a folder of its own: BuildKit may read everything beside it.
        folder = os.path.join(aside, "dockerfile")
        os.mkdir(folder)
        # Windows editors write a byte order mark.
        text = _NO_DIRECTIVES + _read(order["dockerfile"]).removeprefix(codecs.BOM_UTF8)
        _write(os.path.join(folder, "Dockerfile"), text)
        _write(os.path.join(aside, "config.json"), json.dumps(merge_logins(order)).encode())
        _write(os.path.join(aside, "policy.json"), json.dumps(source_policy(order)).encode())
        builder = _builder(order)
        environment = {**os.environ, "DOCKER_CONFIG": aside}
        if order["certificates"]:
            # buildctl itself fetches tokens from the registry, and does not read BuildKit's settings.
            environment["SSL_CERT_DIR"] = os.pathsep.join([*_SYSTEM_CERTIFICATES, order["certificates"]])
        code = subprocess.call(build_command(order), env=environment)
        if code == 0:
            print(answer(order), flush=True)
        elif _builder(order) != builder:
            time.sleep(_WHY_SECONDS)
            raise Refused(_BUILDKIT_ENDED)
        return code
    except (OSError, ValueError, KeyError, Refused) as error:
        print(error, file=sys.stderr)
        return 1


def merge_logins(order: dict[str, Any]) -> dict[str, Any]:
    """The operator's logins, and the author's logins for other registries."""
    given: dict[str, Any] = {}
    if order["logins"]:
        try:
            given = json.loads(_read(order["logins"]))
        except FileNotFoundError:
            raise Refused(_NO_LOGINS) from None
    sent: dict[str, Any] = json.loads(_read(order["sent"])) if order["sent"] else {}
    host = order["registry"].split("/")[0]
    # The key of a login is a host, or an address that begins with it.
    hosts = {name: name.split("://")[-1].split("/")[0] for name in sent.get("auths", {})}
    auths = {name: auth for name, auth in sent.get("auths", {}).items() if hosts[name] != host}
    # The rest of such a file, such as credential helpers, is for another machine.
    return {"auths": {**auths, **given.get("auths", {})}}


def source_policy(order: dict[str, Any]) -> dict[str, Any]:
    """Denies other projects' images, which are behind the same login, on every host: the registry may be a mirror."""
    rules = [
        ("DENY", "WILDCARD", "docker-image://%s/*" % order["registry"]),
        ("DENY", "REGEX", _ANY_PROJECT),
        ("ALLOW", "WILDCARD", "docker-image://%s/*" % order["folder"]),
    ]
    return {
        "rules": [
            {"action": action, "selector": {"identifier": each, "match_type": kind}} for action, kind, each in rules
        ]
    }


def build_command(order: dict[str, Any]) -> list[str]:
    aside = order["aside"]
    words = [*_buildctl(order), "build", "--progress=plain", "--frontend=dockerfile.v0"]
    words += ["--local", "context=%s" % order["context"]]
    words += ["--local", "dockerfile=%s" % os.path.join(aside, "dockerfile"), "--opt", "filename=Dockerfile"]
    words += ["--source-policy-file", os.path.join(aside, "policy.json")]
    words += ["--metadata-file", os.path.join(aside, "made.json")]
    words += ["--export-cache", "type=inline", "--import-cache", "type=registry,ref=%s" % order["cache"]]
    return [*words, "--output", 'type=image,"name=%s,%s",push=true' % (order["name"], order["cache"])]


def answer(order: dict[str, Any]) -> str:
    """One line of JSON: the image's digest, folder, command and variables."""
    made = json.loads(_read(os.path.join(order["aside"], "made.json")))
    command = [*_buildctl(order), "debug", "get", made["containerimage.config.digest"]]
    config = json.loads(subprocess.check_output(command)).get("config") or {}
    line = json.dumps(
        {
            "digest": made["containerimage.digest"],
            "folder": config.get("WorkingDir") or "/",
            "command": [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])],
            "variables": dict(pair.split("=", 1) for pair in config.get("Env") or []),
        }
    )
    if len(line) > _ANSWER_BYTES:
        raise Refused("ENV, ENTRYPOINT and CMD of the image are longer than %d bytes together" % _ANSWER_BYTES)
    return line


def _builder(order: dict[str, Any]) -> int | None:
    """Identifies the BuildKit at the order's address; None if none answers."""
    path = order["address"].split("unix://")[-1]
    try:
        with socket.socket(socket.AF_UNIX) as way:
            way.connect(path)
        return os.stat(path).st_ino
    except OSError:
        return None


def _buildctl(order: dict[str, Any]) -> list[str]:
    return [order["buildctl"], "--addr", order["address"]]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: str, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE), "wb") as file:
        file.write(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
