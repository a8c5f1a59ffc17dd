import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { REPOSITORY } from "../../support/source-files.ts";
import { requireOffered } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

const PROGRAM = path.join(REPOSITORY, "test/support/walls/old-landlock.py");

verifies(
  "walls.old-kernel",
  "without scopes userns refuses unix sockets, and holds otherwise",
  async (context) => {
    await requireOffered("userns", context);
    const said = ["1", "2", "3", "4", "5", "6"].map((version) => {
      const folder = mkdtempSync(path.join(tmpdir(), "millrace-old-"));
      onTestFinished(() => rmSync(folder, { recursive: true }));
      const args = [PROGRAM, path.join(REPOSITORY, "python"), folder, version];
      return execFileSync("python3", args, { encoding: "utf8" }).trim();
    });
    const refusing = "EPERM done done ENOENT done";
    expect(said).toEqual([refusing, refusing, refusing, refusing, refusing, "done done done ENOENT done"]);
  },
);
