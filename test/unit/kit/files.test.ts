import path from "node:path";
import { lookup } from "node:dns/promises";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { rm as removeAsNode } from "node:fs/promises";
import { tmpdir } from "node:os";
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { scryptHash } from "../../../src/identity/passwords.ts";
import {
  chownTree,
  FILE_CALLS_AT_ONCE,
  fileCall,
  namesIn,
  open,
  rm,
  writeChunks,
} from "../../../src/kit/files.ts";
import { LOW_COST } from "../../support/cheap-hashes.ts";
import { hangFiles } from "../../support/hung-files.ts";
import { readSources } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";
import { execFileSync } from "node:child_process";
import { removeTree } from "../../../src/kit/remove-tree.ts";
import { scratchDirectory } from "../../support/command-line.ts";

function scratch(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-files-"));
  onTestFinished(async () => await removeAsNode(folder, { recursive: true, force: true }));
  return folder;
}

verifies("silence.disk", "while files hang passwords are hashed and names looked up", async () => {
  hangFiles(open);
  const hash = await scryptHash("correct horse", Buffer.alloc(16), LOW_COST);
  expect(hash).toHaveLength(32);
  expect((await lookup("localhost")).address).toMatch(/^(?:127\.|::1)/);
});

verifies("silence.disk", "file calls leave half of the threads alone, and take turns", async () => {
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const calls = Array.from({ length: FILE_CALLS_AT_ONCE + 3 }, async (_, number) => {
    await fileCall(async () => {
      begun.push(number);
      await new Promise<void>((resolve) => ends.push(resolve));
      if (number === 0) throw new Error("it failed");
    });
  });
  const failed = calls[0]?.catch((error: unknown) => error);
  for (let ended = 0; ended < calls.length; ended++) {
    await setImmediate();
    expect(begun).toHaveLength(Math.min(FILE_CALLS_AT_ONCE + ended, calls.length));
    ends[ended]?.();
  }
  expect(await failed).toMatchObject({ message: "it failed" });
  await Promise.all(calls.slice(1));
  expect(begun).toEqual(calls.map((_, number) => number));
});

test("what works on the data directory makes no file call but by those", () => {
  const sources = readSources(["src/apps", "src/kit"], [".ts"]);
  expect(sources.size).toBeGreaterThan(50);
  const free = [...sources].filter(
    ([name, text]) =>
      name !== "src/kit/files.ts" &&
      /^import \{[^}]*\} from "node:fs\/promises"|\bcreate(?:Read|Write)Stream\b[^;]*from "node:fs"/m.test(
        text,
      ),
  );
  expect(free.map(([name]) => name)).toEqual([]);
});

test("a file's streams and chunks are written and read whole", async () => {
  const place = path.join(scratch(), "file");
  const file = await open(place, "wx");
  async function* chunks(): AsyncGenerator<Buffer> {
    for (const text of ["one ", "", "two"]) yield await Promise.resolve(Buffer.from(text));
  }
  await writeChunks(file, chunks());
  await file.close();
  const read: Buffer[] = [];
  const stream = (await open(place)).createReadStream({ highWaterMark: 2 }) as AsyncIterable<Buffer>;
  for await (const chunk of stream) read.push(chunk);
  expect(Buffer.concat(read).toString()).toBe("one two");
  expect(readFileSync(place, "utf8")).toBe("one two");
});

test("a folder is removed with all below it, whatever the names, and no link is followed", async () => {
  const folder = scratch();
  const kept = path.join(folder, "kept");
  const gone = path.join(folder, "gone");
  mkdirSync(path.join(gone, "deep", "deeper"), { recursive: true });
  writeFileSync(kept, "");
  writeFileSync(Buffer.concat([Buffer.from(`${gone}/deep/`), Buffer.from([0xff, 0xfe])]), "");
  symlinkSync(folder, path.join(gone, "link"));
  const names: string[] = [];
  for await (const name of namesIn(gone, 1)) names.push(name);
  expect(names.toSorted()).toEqual(["deep", "link"]);
  await rm(gone, { recursive: true, force: true });
  expect([existsSync(gone), existsSync(kept)]).toEqual([false, true]);
  await rm(gone, { recursive: true, force: true });
  await expect(rm(gone, { recursive: true })).rejects.toMatchObject({ code: "ENOENT" });
  await rm(kept);
  expect(existsSync(kept)).toBe(false);
});

/** Folders deeper than a path can say. */
const FILL = `import os, sys
os.chdir(sys.argv[1])
for _ in range(100):
    os.mkdir("d" * 100)
    os.chdir("d" * 100)
`;

verifies(
  "walls.uid-deployed",
  "folders that lie too deep keep no start from giving the rest",
  async (context) => {
    context.skip(process.getuid?.() !== 0, "only root gives files to others");
    const folder = scratchDirectory();
    execFileSync("python3", ["-c", FILL, folder]);
    await chownTree(folder, 1234);
    expect(lstatSync(path.join(folder, "d".repeat(100))).uid).toBe(1234);
    await removeTree(folder);
  },
);
