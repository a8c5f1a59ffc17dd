import { execFileSync } from "node:child_process";
import path from "node:path";
import { expect } from "vitest";
import { REPOSITORY } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

/** A resolver that answers when it is told to. */
const PLAY = `
import sys, threading
sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
from millrace_agent import line
asked, answered, woken = [], threading.Event(), threading.Event()
def find(host, port, type):
    asked.append(host)
    answered.wait()
    return [(2, 1, 6, "", (each, port)) for each in ("10.0.0.1", "10.0.0.1", "10.0.0.2")]
line.socket.getaddrinfo = find
known = line.Addresses([("name", 7), ("127.0.0.1", 8)], woken.set)
# Nobody waits for it, and it is asked once.
print([known.take() for _ in range(4)], known.is_found)
answered.set()
woken.wait()
print(known.is_found, [known.take() for _ in range(2)], asked)
known.prefer(("10.0.0.9", 9))
print(known.take())
`;

verifies("seats.names", "the others have their turn while a name is looked up, then all that it has", () => {
  const printed = execFileSync("python3", ["-I", "-S", "-c", PLAY], { encoding: "utf8" });
  expect(printed.trim().split("\n")).toEqual([
    "[None, ('127.0.0.1', 8), None, ('127.0.0.1', 8)] False",
    "True [('10.0.0.1', 7), ('10.0.0.2', 7)] ['name']",
    "('10.0.0.9', 9)",
  ]);
});
