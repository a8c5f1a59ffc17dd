import { existsSync, readFileSync } from "node:fs";
import { describe, expect } from "vitest";
import { sharedPool } from "../../support/pool.ts";
import { verifies } from "../../verifies.ts";
import { together } from "./batch-apps.ts";
import { noteFile } from "./stream-call.ts";

const MAIN = `
import os, sys, time

def hold(note, gate):
    open(note, "w").close()
    while not os.path.exists(gate):
        time.sleep(0.002)

class Scalar:
    """As an array without dimensions."""
    def __len__(self):
        raise TypeError("len() of unsized object")

class Lying(list):
    def __len__(self):
        return 3

class Raising(list):
    def __iter__(self):
        raise LookupError("no items")

class Leaving(list):
    def __len__(self):
        raise SystemExit(3)

class Mute(Exception):
    def __str__(self):
        raise KeyboardInterrupt

def made(kind, n):
    return {
        "scalar": Scalar(), "lying": Lying([1]), "long": Lying(range(9)), "raising": Raising(range(n)),
        "leaving": Leaving([1]), "mute": [Mute() for _ in range(n)], "fine": [1] * n,
    }[kind]

ASYNC def answer(kind):
    if kind[0] == "raise mute":
        raise Mute()
    return made(kind[0], len(kind))

ASYNC def stream(kind):
    yield made(kind[0], len(kind))

ASYNC def fork(note):
    with open(note[0], "a") as file:
        file.write("x")
    child = os.fork()
    if child == 0:
        raise ValueError("in the child")
    os.waitpid(child, 0)
    return ["parent" for _ in note]

ASYNC def pid(n):
    return [os.getpid() for _ in n]
`;
const NAMES = ["answer", "stream", "fork", "pid"];
const TOML = (concurrency: number): string =>
  `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}\n${NAMES.map((name) => `[batching.${name}]\nmax_wait = "0s"\n`).join("")}`;

describe.each([
  ["def", "", 1],
  ["def, several at a time", "", 2],
  ["async def", "async ", 1],
])("%s", (_, word, concurrency) => {
  const shared = sharedPool({ main: MAIN.replaceAll("ASYNC ", word), toml: TOML(concurrency) });

  /** How three calls ended that left together, in short. */
  const ends = async (name: string, args: object): Promise<string[]> => {
    const calls = await together(shared(), () => [1, 2, 3].map(() => shared().submit(name, args)));
    const outcomes = await Promise.all(calls.map(({ ended }) => ended));
    return outcomes.map((each) => ("message" in each ? `${each.kind} ${each.message}` : each.kind));
  };
  const misfit = (what: string): string =>
    `raised TypeError: ${what} for a batch of 3: the result must be a list of length 3, with one item for each call`;

  verifies(
    "batching.wrong-length",
    "a result that misleads about its items fails its calls, not the process",
    async () => {
      const before = await shared().value("pid", { n: 1 });
      for (const [name, verb] of [
        ["answer", "returned"],
        ["stream", "yielded"],
      ] as const) {
        const said = `${name}() ${verb}`;
        expect(await ends(name, { kind: "scalar" })).toEqual(Array(3).fill(misfit(`${said} a Scalar`)));
        expect(await ends(name, { kind: "lying" })).toEqual(
          Array(3).fill(misfit(`${said} a Lying of length 1`)),
        );
        expect(await ends(name, { kind: "long" })).toEqual(
          Array(3).fill(misfit(`${said} a Lying of length 9`)),
        );
      }
      expect(await ends("answer", { kind: "raising" })).toEqual(Array(3).fill("returned"));
      expect(await ends("answer", { kind: "leaving" })).toEqual(
        Array(3).fill(misfit("answer() returned a Leaving of length 1")),
      );
      expect(await shared().value("pid", { n: 1 })).toBe(before);
    },
  );

  verifies(
    "batching.item-error",
    "an exception that cannot be shown fails its call, not the process",
    async () => {
      const before = await shared().value("pid", { n: 1 });
      const mute = Array(3).fill("raised Mute: (its __str__ failed)");
      expect(await ends("answer", { kind: "mute" })).toEqual(mute);
      expect(await ends("stream", { kind: "mute" })).toEqual(mute);
      expect(await ends("answer", { kind: "raise mute" })).toEqual(mute);
      expect(await shared().value("pid", { n: 1 })).toBe(before);
    },
  );

  verifies(
    "batching.split",
    "a child process that the function leaves by an exception runs no half of the batch",
    async () => {
      const note = noteFile();
      expect(await ends("fork", { note })).toEqual(["returned", "returned", "returned"]);
      expect(existsSync(note) && readFileSync(note, "utf8")).toBe("x");
    },
  );
});
