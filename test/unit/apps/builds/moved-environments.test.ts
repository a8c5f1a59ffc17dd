import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  lchownSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { settleMovedEnvironments } from "../../../../src/apps/builds/moved-environments.ts";
import { verifies } from "../../../verifies.ts";
import { SWAP } from "../../../support/swap.ts";

const OLD = "/srv/old/environments/abc";

/** A data directory with one environment, as it lies after a move. */
function moved(files: Record<string, string | Buffer>) {
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-moved-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const folder = path.join(dataDir, "environments", "abc");
  mkdirSync(path.join(folder, "bin"), { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(path.join(folder, name), content, { mode: name.startsWith("bin/") ? 0o755 : 0o644 });
  }
  return { dataDir, folder, read: (name: string) => readFileSync(path.join(folder, name), "utf8") };
}

test("scripts name the new place, and stay what they were", async () => {
  const { dataDir, folder, read } = moved({
    ready: OLD,
    "pyvenv.cfg": `home = /usr/bin\ncommand = /usr/bin/python3 -m venv ${OLD}\n`,
    "bin/tool": `#!${OLD}/bin/python\nprint("${OLD}-other ${OLD}", "/x${OLD}")\n`,
  });
  expect(await settleMovedEnvironments(dataDir)).toBe(1);
  expect(read("pyvenv.cfg")).toBe(`home = /usr/bin\ncommand = /usr/bin/python3 -m venv ${folder}\n`);
  // What only begins or ends like it is another path.
  expect(read("bin/tool")).toBe(`#!${folder}/bin/python\nprint("${OLD}-other ${folder}", "/x${OLD}")\n`);
  expect(statSync(path.join(folder, "bin", "tool")).mode & 0o777).toBe(0o755);
  expect(read("ready")).toBe(folder);
  expect(await settleMovedEnvironments(dataDir)).toBe(0);
});

test("a build that says it was made at / takes neither the service's time nor its disk", async () => {
  const names = Array.from({ length: 8 }, (_, index) => `bin/script-${index}`);
  const script = "/".repeat(512 * 1024);
  const { dataDir, folder } = moved({
    ready: "/",
    ...Object.fromEntries(names.map((name) => [name, script])),
  });
  await settleMovedEnvironments(dataDir);
  const sizes = names.map((name) => statSync(path.join(folder, name)).size);
  // Every other slash: next to what ends in a letter, one is a part of that path.
  expect(Math.max(...sizes)).toBe((script.length / 2) * (folder.length + 1));
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(80 * 1024 * 1024);
});

test.runIf(process.getuid?.() === 0)("what is a project's user's stays that user's", async () => {
  const { dataDir, folder } = moved({ ready: OLD, "bin/tool": `#!${OLD}/bin/python\n` });
  const tool = path.join(folder, "bin", "tool");
  lchownSync(tool, 1234, 1235);
  await settleMovedEnvironments(dataDir);
  const { uid, gid } = statSync(tool);
  expect([uid, gid, statSync(path.join(folder, "ready")).uid]).toEqual([1234, 1235, 0]);
});

test("one whose marker says nothing does not count as finished", async () => {
  const { dataDir, folder, read } = moved({ ready: "", "bin/tool": `#!${OLD}/bin/python\n` });
  expect(await settleMovedEnvironments(dataDir)).toBe(0);
  expect(read("bin/tool")).toBe(`#!${OLD}/bin/python\n`);
  expect(existsSync(path.join(folder, "ready"))).toBe(false);
});

test("programs, files that a copy shares, and what was never finished are left alone", async () => {
  const program = Buffer.from(`\x7fELF\0${OLD}/bin/python`);
  const { dataDir, folder, read } = moved({
    ready: OLD,
    "bin/program": program,
    "bin/tool": `#!${OLD}/bin/python\n`,
  });
  const shared = path.join(dataDir, "shared");
  linkSync(path.join(folder, "bin", "tool"), shared);
  await settleMovedEnvironments(dataDir);
  expect(readFileSync(path.join(folder, "bin", "program")).equals(program)).toBe(true);
  expect(readFileSync(shared, "utf8")).toBe(`#!${OLD}/bin/python\n`);
  const unfinished = moved({ "bin/tool": `#!${OLD}/bin/python\n` });
  expect(await settleMovedEnvironments(unfinished.dataDir)).toBe(0);
  expect(read("bin/tool")).toContain(folder);
});

test("a path that is too long for a script's first line is given to the shell", async () => {
  const { dataDir, folder, read } = moved({ ready: OLD });
  const long = path.join(dataDir, "d".repeat(120));
  const there = path.join(long, "environments", "abc");
  mkdirSync(path.join(there, "bin"), { recursive: true });
  writeFileSync(path.join(there, "ready"), OLD);
  writeFileSync(path.join(there, "bin", "tool"), `#!${OLD}/bin/python\nprint(1)\n`);
  await settleMovedEnvironments(long);
  expect(readFileSync(path.join(there, "bin", "tool"), "utf8")).toBe(
    `#!/bin/sh\n'''exec' "${there}/bin/python" "$0" "$@"\n' '''\nprint(1)\n`,
  );
  expect([read("ready"), folder.length < 127]).toEqual([OLD, true]);
});

verifies("shared.folders", "of several that share them by links the first settles them for all", async () => {
  const { dataDir, folder, read } = moved({ ready: OLD, "bin/tool": `#!${OLD}/bin/python\n` });
  const members = ["a", "b"].map((name) => path.join(dataDir, name));
  for (const member of members) {
    mkdirSync(member);
    symlinkSync(path.join(dataDir, "environments"), path.join(member, "environments"));
  }
  const settled: number[] = [];
  for (const member of [...members, ...members]) settled.push(await settleMovedEnvironments(member));
  expect(settled).toEqual([1, 0, 0, 0]);
  expect(read("bin/tool")).toBe(`#!${folder}/bin/python\n`);
});

verifies(
  "builds.bounded-reading",
  "whatever a build that was cut short has left, the next start neither waits for it nor fails",
  async () => {
    const pipe = moved({ ready: OLD });
    execFileSync("mkfifo", [path.join(pipe.folder, "bin", "activate")]);
    expect(await settleMovedEnvironments(pipe.dataDir)).toBe(1);
    const link = moved({});
    symlinkSync("/dev/zero", path.join(link.folder, "ready"));
    expect(await settleMovedEnvironments(link.dataDir)).toBe(0);
    const folder = moved({ "bin/activate": `VIRTUAL_ENV="${OLD}"\n` });
    mkdirSync(path.join(folder.folder, "ready", "inner"), { recursive: true });
    expect(await settleMovedEnvironments(folder.dataDir)).toBe(0);
    // They do not count, and are swept.
    for (const each of [link, folder]) expect(existsSync(path.join(each.folder, "ready"))).toBe(false);
  },
);

verifies(
  "builds.no-service-runs",
  "a build that swaps folders for links while they are settled has nothing else read or written",
  async () => {
    const names = Array.from({ length: 200 }, (_, index) => `script-${index}`);
    const scripts = Object.fromEntries(names.map((name) => [`bin/${name}`, `says ${OLD}\n`]));
    const { dataDir, folder } = moved({ ready: OLD, ...scripts });
    const other = path.join(dataDir, "other");
    mkdirSync(other);
    for (const name of names) writeFileSync(path.join(other, name), `secret ${OLD}\n`);
    const swapper = spawn("python3", ["-c", SWAP, folder, other, "bin"]);
    onTestFinished(() => void swapper.kill("SIGKILL"));
    await once(swapper.stdout, "data");
    for (let round = 0; round < 20; round++) {
      writeFileSync(path.join(folder, "ready"), OLD);
      await settleMovedEnvironments(dataDir).catch(() => undefined);
    }
    expect(readdirSync(other).toSorted()).toEqual(names.toSorted());
    for (const name of names) expect(readFileSync(path.join(other, name), "utf8")).toBe(`secret ${OLD}\n`);
  },
);
