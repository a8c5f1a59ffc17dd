import path from "node:path";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, lchownSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, onTestFinished } from "vitest";
import { removeTree } from "../../../src/kit/remove-tree.ts";
import { scratchDirectory } from "../../support/command-line.ts";
import { SWAP } from "../../support/swap.ts";
import { verifies } from "../../verifies.ts";
import { REPOSITORY } from "../../support/source-files.ts";

const run = async (code: string, ...args: string[]) =>
  await promisify(execFile)("python3", ["-c", code, ...args]);

/** Deeper than a path can say, names that are no text, links, a pipe, and folders that nobody may read. */
const FILL = `import os, sys
os.chdir(sys.argv[1])
for name in (b"\\xff\\xfe", b"\\xff-folder/\\xfe"):
    os.makedirs(name)
os.symlink(sys.argv[2], "link")
os.mkfifo("pipe")
os.makedirs("closed/inner/innermost")
for folder in ("closed/inner", "closed"):
    os.chmod(folder, 0)
for _ in range(100):
    os.mkdir("d" * 100)
    os.chdir("d" * 100)
    open("file", "w").close()
`;

verifies("walls.removal", "a folder is removed whatever was put into it", async () => {
  const place = scratchDirectory();
  const [folder, other] = [path.join(place, "folder"), path.join(place, "other")];
  for (const each of [folder, other]) mkdirSync(each);
  writeFileSync(path.join(other, "kept"), "");
  await run(FILL, folder, other);
  await removeTree(folder);
  await removeTree(folder);
  expect(existsSync(folder)).toBe(false);
  expect(readdirSync(other)).toEqual(["kept"]);
});

verifies("walls.removal", "whoever swaps folders for links meanwhile has nothing else removed", async () => {
  const place = scratchDirectory();
  const [folder, other] = [path.join(place, "folder"), path.join(place, "other")];
  for (let round = 0; round < 10; round++) {
    mkdirSync(path.join(other, "below"), { recursive: true });
    const kept = Array.from({ length: 20 }, (_, index) => `kept-${index}`);
    for (const name of kept) writeFileSync(path.join(other, name), "");
    for (let index = 0; index < 50; index++)
      mkdirSync(path.join(folder, `folder-${index}`, "x"), { recursive: true });
    const swapper = spawn("python3", ["-c", SWAP, folder, other, "folder"]);
    onTestFinished(() => void swapper.kill("SIGKILL"));
    await once(swapper.stdout, "data");
    await removeTree(folder).catch(() => undefined);
    swapper.kill("SIGKILL");
    await once(swapper, "exit");
    expect(readdirSync(other).toSorted()).toEqual(["below", ...kept].toSorted());
    await removeTree(folder);
  }
});

const IS_ROOT = process.getuid?.() === 0;
/** Root that may open no more than an ordinary user does. */
const ORDINARY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];
const EMPTY = `
import { createLog } from "${REPOSITORY}/src/kit/log.ts";
import { Trash } from "${REPOSITORY}/src/kit/remove-tree.ts";
await new Trash(process.argv[1], createLog("silent")).empty();
`;

verifies(
  "walls.removal",
  "an ordinary user's trash is emptied of folders that were closed to all",
  async () => {
    const trash = scratchDirectory();
    for (let index = 0; index < 5; index++) {
      const closed = path.join(trash, `closed-${index}`);
      mkdirSync(path.join(closed, "inner", "innermost"), { recursive: true });
      writeFileSync(path.join(closed, "inner", "file"), "");
      for (const folder of ["inner/innermost", "inner", ""]) chmodSync(path.join(closed, folder), 0);
      mkdirSync(path.join(trash, `other-${index}`));
      if (!IS_ROOT) continue;
      // Nothing that an app makes is like this, but whatever it is, the rest goes.
      const stuck = path.join(trash, `stuck-${index}`);
      mkdirSync(path.join(stuck, "inner"), { recursive: true });
      lchownSync(stuck, 1234, 1234);
    }
    const [program, ...args] = [...(IS_ROOT ? ORDINARY : []), process.execPath];
    await promisify(execFile)(program, [...args, "--input-type=module", "-e", EMPTY, trash]);
    expect(readdirSync(trash).filter((name) => !name.startsWith("stuck-"))).toEqual([]);
  },
);
