import { execFile } from "node:child_process";
import { chmodSync, lchownSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { scratchDirectory } from "../../support/command-line.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const IS_ROOT = process.getuid?.() === 0;
/** Root that may open no more than an ordinary user does. */
const ORDINARY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];
const EMPTY = `
import { createLog } from "${REPOSITORY}/src/kit/log.ts";
import { Trash } from "${REPOSITORY}/src/kit/trash.ts";
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
