"""What the service tells an agent on its own machine: what to run, and behind which walls."""

from __future__ import annotations

import os
from collections.abc import Iterable


class Plan:
    """One process to be: its program and its walls. All of it comes from the service, which is trusted."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        one: dict[str, str] = {}
        self.arguments: list[str] = []
        #: The program's whole environment.
        self.variables: dict[str, str] = {}
        #: Further files and folders that it reads; what is not there is left out.
        self.reads: list[str] = []
        #: Folders that it writes, beyond those named below.
        self.writes: list[str] = []
        #: Ranges of addresses: out of reach, out of reach with `egress` unless they are in the third.
        self.denied: list[str] = []
        self.private: list[str] = []
        self.allowed: list[str] = []
        ranges = {"denied": self.denied, "private": self.private, "allowed": self.allowed}
        watched: list[str] = []
        lists = {"argument": self.arguments, "read": self.reads, "write": self.writes, "watched": watched, **ranges}
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
        #: Whether it gets a view of the machine of its own, and so is the first process of new namespaces.
        self.has_namespaces = self.level in ("userns", "uid")
        #: Who it runs as; none but on `uid`.
        self.user = int(one["user"]) if self.level == "uid" else None
        #: Whether the app may use the internet: `true`, `false`, or `egress`.
        self.network = one["network"]
        #: The port of the service's management listener, where connections are judged; 0 if that is not known yet.
        self.is_judged = "management_port" in one
        self.management_port = int(one.get("management_port", "0"))
        #: Whether the kernel can ask the keeper about system calls on this host.
        self.has_notifier = self.is_judged or one.get("notifier") == "true"
        #: The machine is not the service's: of what listens there, the app reaches its own.
        self.is_guest = one.get("guest") == "true"
        #: A file with the addresses of other machines that it must not reach; none where there are no such.
        self.neighbours = one.get("neighbours")
        #: Ports that are kept for servers; of those the app may take its own alone, if it has one.
        first, _, last = one.get("server_ports", "1-0").partition("-")
        self.server_ports = range(int(first), int(last) + 1)
        self.own_port = int(one.get("own_port", "0"))
        #: The port that the configuration of a server declares; 0 for an app that is none.
        self.declared_port = int(one.get("declared_port", "0"))
        #: Whether it may use unix sockets where the paths of others are in its view.
        self.unix_sockets = one.get("unix_sockets") == "true"
        #: Where the service listens for its replicas; none for a program that does not call home.
        self.home = one.get("home")
        #: The app's interpreter, or any other program.
        self.program = one["program"]
        #: The host's Python that the program runs on or may start; none where the packages bring their own.
        self.interpreter = one.get("interpreter")
        #: One line for its stdin, if it is told something there.
        self.order = one.get("order")
        #: What it reads from a descriptor of its own, for what no command line may show.
        self.input = one.get("input")
        #: Where it starts and reads: the app's code, its packages if it has some, the harness.
        self.bundle = one["bundle"]
        self.environment = one.get("environment")
        self.harness = one["harness"]
        #: Folders that it writes: what it keeps, if anything, and what is gone when it ends.
        self.storage = one.get("storage")
        self.scratch = one["scratch"]
        #: What its memory is limited to, in bytes; none for as much as the host has.
        self.memory_bytes = int(one["memory_bytes"]) if "memory_bytes" in one else None
        #: Whether the service talks to the agent.
        self.has_service = one.get("service") == "true"
        #: The memory of a replica in bytes, where it is watched because the kernel does not limit it.
        self.watched_memory = int(one["watched_memory"]) if "watched_memory" in one else None
        #: Folders that are watched: what each is called, how many bytes it may hold, and where it is.
        self.watched = [(name, int(most), path) for name, most, path in (each.split(" ", 2) for each in watched)]
        #: Nothing starts if the storage is full.
        self.checks_storage = one.get("checks_storage") == "true"
        #: The port of a server, and the one that its author wrote; none for what is no server.
        self.server = (int(one["port"]), int(one["authored"])) if "port" in one else None
        #: Where everybody else's is: nothing that holds this folder may be read.
        self.data_dir = one["data_dir"]


def parse(text: bytes) -> Plan:
    """Fields as `name=value`, each with a zero byte after it, which no path and no variable can hold.

    The last is `end=`. Not JSON: to import its reader takes as long as to raise the walls.
    """
    *fields, end, rest = text.split(b"\0")
    if end != b"end=" or rest:
        raise ValueError("the plan has no end")
    pairs = (os.fsdecode(field).partition("=") for field in fields)
    return Plan((name, value) for name, _, value in pairs)
