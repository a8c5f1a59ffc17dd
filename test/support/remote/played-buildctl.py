#!/usr/bin/env python3
"""Plays buildctl, whose BuildKit is a folder: what it is asked for is written down there, and nothing is built."""

import json
import os
import sys
import time

DIGEST = "sha256:" + "a" * 64
CONFIG = "sha256:" + "c" * 64


def main() -> int:
    folder, words = sys.argv[2], sys.argv[3:]
    if words[0] == "debug":
        with open(os.path.join(folder, "config.json")) as file:
            print(json.dumps({"config": json.load(file)}) if words[2] == CONFIG else "{}")
        return 0
    options = [words[n + 1] for n, word in enumerate(words) if word == "--local"]
    locals_ = dict(pair.split("=", 1) for pair in options)
    dockerfile = read(os.path.join(locals_["dockerfile"], "Dockerfile"))
    seen = {
        "words": words,
        "dockerfile": dockerfile,
        "context": sorted(os.listdir(locals_["context"])),
        "beside": sorted(os.listdir(locals_["dockerfile"])),
        "policy": json.loads(read(words[words.index("--source-policy-file") + 1])),
        "certificates": os.environ["SSL_CERT_DIR"],
        "logins": json.loads(read(os.path.join(os.environ["DOCKER_CONFIG"], "config.json"))),
    }
    with open(os.path.join(folder, "seen.json"), "w") as file:
        json.dump(seen, file)
    print("#1 [internal] load build definition from Dockerfile", file=sys.stderr, flush=True)
    if "RUN false" in dockerfile:
        print('ERROR: failed to solve: process "/bin/sh -c false" did not complete: exit code: 1', file=sys.stderr)
        return 1
    for word, why in (("RUN push", "connect: connection refused"), ("RUN login", "401 Unauthorized")):
        if word in dockerfile:
            print("error: failed to solve: failed to push registry.example:5000/x: %s" % why, file=sys.stderr)
            return 1
    if "RUN sleep" in dockerfile:
        print("#2 asleep", file=sys.stderr, flush=True)
        time.sleep(600)
    with open(words[words.index("--metadata-file") + 1], "w") as file:
        json.dump({"containerimage.digest": DIGEST, "containerimage.config.digest": CONFIG}, file)
    return 0


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


if __name__ == "__main__":
    sys.exit(main())
