import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { REPOSITORY } from "../../support/source-files.ts";
import { runAltered } from "../../support/walls/altered-host.ts";
import type { Altered } from "../../support/walls/altered-host.ts";
import { requireJudged } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

const PROGRAM = readFileSync(path.join(REPOSITORY, "test/support/walls/cuda-start.py"), "utf8");

const STARTED = { name: "found", server: "ENOENT", thread: "cuda-EvtHandlr" };
/** Paths lead to the app's own files. */
const APART = { ...STARTED, path: "shared" };

function started(altered: Altered): unknown {
  return runAltered({ nvidia: true, ...altered }, PROGRAM);
}

for (const rung of ["process", "landlock"] as const)
  verifies(
    ["walls.cuda", "walls.thread-names"],
    `on ${rung} CUDA's calls succeed, unix sockets with paths do not, and /proc opens no further`,
    async (context) => {
      await requireJudged(rung, context);
      expect(started({ rung })).toMatchObject({
        ...STARTED,
        path: "EACCES",
        ...(rung === "landlock" && { memory: "EACCES", kernel: "EACCES" }),
      });
    },
  );

for (const rung of ["userns", "uid"] as const)
  verifies(
    ["walls.cuda", "walls.old-kernel", "walls.unix-sockets.apart"],
    `on ${rung} CUDA's calls succeed with every version of Landlock`,
    async (context) => {
      await requireJudged(rung, context);
      for (const version of [1, 2, 3, 4, 5, 6])
        expect([version, started({ rung, landlock: version })]).toMatchObject([version, { ...APART, kernel: "EACCES" }]);
    },
  );

verifies("walls.cuda", "without a network CUDA's calls succeed as well", async (context) => {
  await requireJudged("landlock", context);
  expect(started({ rung: "landlock", fields: { network: "false", notifier: "true" } })).toMatchObject({ ...STARTED, kernel: "EACCES" });
});
