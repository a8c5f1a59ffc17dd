import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { REPOSITORY } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

/** Nobody is connected to. The file is written as an actor writes it. */
const PLAY = `
import json, os, sys; sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
import asyncio
from millrace_ray.seat import Seat
from millrace_walls import judge
from millrace_walls.addresses import Address
from millrace_walls.plan import Plan
class Listeners:
    def at(self, address):
        return set()
rest = dict.fromkeys(("level", "home", "program", "order", "bundle", "harness", "storage", "scratch", "data_dir"), "")
seat = Seat()
def learn(*addresses):
    asyncio.run(seat.learn(list(addresses)))
learn("203.0.113.7", "127.0.0.1", "no/address", "2001:db8::7")
fields = {**rest, "network": "true", "management_port": "0", "guest": "true", "neighbours": seat._neighbours}
judged = judge.Judge(Plan(fields.items()), Listeners())
seven, eight = Address(32, 0xCB007107, 80), Address(32, 0xCB007108, 80)
six = Address(128, 0x20010DB8 << 96 | 7, 80)
def permitted():
    print(*[judged.permits(each) for each in (seven, eight, six)])
permitted()
learn("203.0.113.7", "203.0.113.8")
permitted()
os.unlink(seat._neighbours)
permitted()
`;

verifies("seats.neighbours", "machines that come later are out of reach of what runs already", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-neighbours-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const env = { ...process.env, TMPDIR: folder };
  const printed = execFileSync("python3", ["-I", "-c", PLAY], { encoding: "utf8", env });
  expect(printed.trim().split("\n")).toEqual(["False True False", "False False True", "False False True"]);
});

/** A cluster that gets a node. */
const SUPERVISE = `
import sys; sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
import asyncio
from millrace_ray import supervisor
supervisor._LOOK_SECONDS = 0
class Ray:
    hosts = ["10.0.0.1"]
    def nodes(self):
        return [{"NodeManagerAddress": each, "Alive": each != "10.0.0.9"} for each in self.hosts]
async def main():
    told = asyncio.Queue()
    class Method:
        async def remote(self, addresses):
            told.put_nowait(addresses)
    class Actor:
        learn = Method()
    ray = Ray()
    one = supervisor.Supervisor(ray, "n")
    one._actors = {"old": object(), "seat": Actor()}
    looking = asyncio.ensure_future(one._look_around())
    print(await told.get())
    ray.hosts = ["10.0.0.1", "10.0.0.9", "10.0.0.2"]
    print(await told.get())
    looking.cancel()
asyncio.run(main())
`;

verifies("seats.neighbours", "the supervisor on Ray tells every seat of nodes that join", () => {
  const printed = execFileSync("python3", ["-I", "-c", SUPERVISE], { encoding: "utf8" });
  expect(printed.trim().split("\n")).toEqual(["['10.0.0.1']", "['10.0.0.1', '10.0.0.2']"]);
});
