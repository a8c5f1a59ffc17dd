import { execFileSync } from "node:child_process";
import { lstatSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { giveTree } from "../../../src/kit/give-tree.ts";
import { removeTree } from "../../../src/kit/remove-tree.ts";
import { scratchDirectory } from "../../support/command-line.ts";
import { verifies } from "../../verifies.ts";

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
    await giveTree(folder, 1234);
    expect(lstatSync(path.join(folder, "d".repeat(100))).uid).toBe(1234);
    await removeTree(folder);
  },
);
