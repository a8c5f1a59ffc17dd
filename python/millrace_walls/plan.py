"""The plan of an agent: what to run, and behind which walls."""

from __future__ import annotations

import os
from collections.abc import Iterable


class Plan:
    """A program and its walls. All of it comes from the service, which is trusted."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        one: dict[str, str] = {}
        self.arguments: list[str] = []
        #: The program's whole environment.
        self.variables: dict[str, str] = {}
        #: Further files and folders that it reads, if they exist, and folders that it writes.
        self.reads: list[str] = []
        self.writes: list[str] = []
        #: Ranges of addresses: never in reach, private ones, and those that are permitted beyond the internet.
        self.denied: list[str] = []
        self.private: list[str] = []
        self.allowed: list[str] = []
        ranges = {"denied": self.denied, "private": self.private, "allowed": self.allowed}
        gpus: list[str] = []
        granted: list[str] = []
        watched: list[str] = []
        further = {"gpu": gpus, "granted_gpu": granted, "watched": watched, **ranges}
        lists = {"argument": self.arguments, "read": self.reads, "write": self.writes, **further}
        for name, value in fields:
            if name in lists:
                lists[name].append(value)
            elif name == "variable":
                variable, _, text = value.partition("=")
                self.variables[variable] = text
            else:
                one[name] = value
        #: `none`, `process`, `landlock`, `userns` or `uid`; each includes those before it.
        self.level = one["level"]
        #: Whether it gets its own view of the machine, as first process of new namespaces.
        self.has_namespaces = self.level in ("userns", "uid")
        self.user = int(one["user"]) if self.level == "uid" else None
        #: Whether the app may use the internet: `true`, `false`, or `egress`.
        self.network = one["network"]
        #: The port of the service's management listener, if connections are judged; 0 if it is not known yet.
        self.is_judged = "management_port" in one
        self.management_port = int(one.get("management_port", "0"))
        #: Whether the kernel can ask the keeper about system calls on this host.
        self.has_notifier = self.is_judged or one.get("notifier") == "true"
        #: The machine is not the service's: the app reaches only its own listeners there.
        self.is_guest = one.get("guest") == "true"
        #: A file with the addresses of other machines that it must not reach.
        self.neighbours = one.get("neighbours")
        #: Ports reserved for servers, of which the app may bind only its own, if it has one.
        first, _, last = one.get("server_ports", "1-0").partition("-")
        self.server_ports = range(int(first), int(last) + 1)
        self.own_port = int(one.get("own_port", "0"))
        #: The port in the configuration of a server; 0 for other apps.
        self.declared_port = int(one.get("declared_port", "0"))
        #: Whether it may use the unix sockets of other programs whose paths it sees.
        self.unix_sockets = one.get("unix_sockets") == "true"
        #: The service's socket for replicas; None for a program that does not call home.
        self.home = one.get("home")
        self.program = one["program"]
        #: The host's Python that the program runs on or may start; None if the packages include one.
        self.interpreter = one.get("interpreter")
        #: One line for stdin.
        self.order = one.get("order")
        #: The content of a further descriptor, for data that no command line may show.
        self.input = one.get("input")
        self.bundle = one["bundle"]
        self.environment = one.get("environment")
        self.harness = one["harness"]
        #: Folders that it writes: one that it keeps, and one that is removed when it ends.
        self.storage = one.get("storage")
        self.scratch = one["scratch"]
        self.memory_bytes = int(one["memory_bytes"]) if "memory_bytes" in one else None
        #: Whether the service talks to the agent.
        self.has_service = one.get("service") == "true"
        #: The memory limit of a replica in bytes, if the agent has to enforce it.
        self.watched_memory = int(one["watched_memory"]) if "watched_memory" in one else None
        #: Folders with a limit: name, bytes and path.
        self.watched = [(name, int(most), path) for name, most, path in (each.split(" ", 2) for each in watched)]
        #: Whether to start nothing if the storage is full.
        self.checks_storage = one.get("checks_storage") == "true"
        #: A server's port, and the port in its configuration.
        self.server = (int(one["port"]), int(one["authored"])) if "port" in one else None
        #: Whether it sees only GPUs that it was granted; those that it may ever get and those it gets first, by files.
        self.has_own_gpus = one.get("gpus") == "assigned"
        self.gpus, self.granted_gpus = gpus, granted
        #: The folder of everyone's files: nothing that contains it may be readable.
        self.data_dir = one["data_dir"]


def parse(text: bytes) -> Plan:
    """Reads fields `name=value`, each with a zero byte after it; the last is `end=`. Importing JSON would take as long
    as raising the walls.
    """
    *fields, end, rest = text.split(b"\0")
    if end != b"end=" or rest:
        raise ValueError("the plan has no end")
    pairs = (os.fsdecode(field).partition("=") for field in fields)
    return Plan((name, value) for name, _, value in pairs)
