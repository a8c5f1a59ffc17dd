import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Ownership } from "../../../src/nodes/ownership.ts";
import { verifies } from "../../verifies.ts";

function scratch(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "ownership-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(path.join(folder, "data"));
  return folder;
}

test("a start knows every owner that ended in its directory since the last one that took over", () => {
  const dataDir = path.join(scratch(), "data");
  const first = new Ownership(dataDir);
  expect(first.predecessors).toEqual([]);
  const second = new Ownership(dataDir);
  expect(second.predecessors).toEqual([first.owner]);
  const third = new Ownership(dataDir);
  expect(third.predecessors).toEqual([first.owner, second.owner]);
  third.settle();
  expect(new Ownership(dataDir).predecessors).toEqual([third.owner]);
});

test("a directory that was moved is the same one, a copy of it is not", () => {
  const folder = scratch();
  const first = new Ownership(path.join(folder, "data"));
  cpSync(path.join(folder, "data"), path.join(folder, "copy"), { recursive: true });
  expect(new Ownership(path.join(folder, "copy")).predecessors).toEqual([]);
  renameSync(path.join(folder, "data"), path.join(folder, "moved"));
  expect(new Ownership(path.join(folder, "moved")).predecessors).toEqual([first.owner]);
});

test("a file that is none of ours names nobody", () => {
  const dataDir = path.join(scratch(), "data");
  for (const text of ["", "{", "[]", '{"place":"0:0","owners":["x"]}', '{"owners":7}', "null"]) {
    writeFileSync(path.join(dataDir, "owners.json"), text);
    expect([text, new Ownership(dataDir).predecessors]).toEqual([text, []]);
  }
});

verifies(
  "async.predecessor.clone",
  "who ended on another machine, or before this one started, may live",
  () => {
    const dataDir = path.join(scratch(), "data");
    expect(new Ownership(dataDir, "one").predecessors).toEqual([]);
    // Another machine has a clone of the disk: the same device and inode.
    expect(new Ownership(dataDir, "two").predecessors).toEqual([]);
    const here = new Ownership(dataDir, "one");
    expect(here.predecessors).toEqual([]);
    expect(new Ownership(dataDir, "one").predecessors).toEqual([here.owner]);
    // Where the kernel does not tell, nobody is known to be dead.
    const unknown = [new Ownership(dataDir, null), new Ownership(dataDir, null)];
    expect(unknown.map(({ predecessors }) => predecessors)).toEqual([[], []]);
  },
);
