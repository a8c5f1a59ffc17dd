import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { PYTHON_DIR } from "../../../src/config/package-files.ts";
import type { WallLevel } from "../../../src/host/walls/walls.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { type Altered, runAltered, temporaryFolder } from "../../support/walls/altered-host.ts";
import { FIRST_USER, requireJudged } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

const PROGRAM = readFileSync(path.join(REPOSITORY, "test/support/walls/cuda-start.py"), "utf8");

const STARTED = { name: "found", server: "ENOENT", thread: "cuda-EvtHandlr" };
/** Paths lead to the app's own files, or to its scratch folder. */
const APART = { ...STARTED, path: "shared" };

function started(altered: Altered): unknown {
  return runAltered({ nvidia: true, ...altered }, PROGRAM);
}

verifies(
  ["walls.cuda", "walls.thread-names"],
  "on landlock CUDA's calls succeed, and /proc opens no further",
  async (context) => {
    await requireJudged("landlock", context);
    expect(started({ level: "landlock" })).toEqual({ ...APART, memory: "EACCES", kernel: "EACCES" });
  },
);

verifies(
  "walls.cuda",
  "on process CUDA's calls succeed, and no path of a unix socket does",
  async (context) => {
    await requireJudged("process", context);
    expect(started({ level: "process" })).toMatchObject({ ...STARTED, path: "EACCES" });
  },
);

for (const level of ["userns", "uid"] as const)
  verifies(
    ["walls.cuda", "walls.old-kernel", "walls.unix-sockets.apart"],
    `on ${level} CUDA's calls succeed with every version of Landlock`,
    async (context) => {
      await requireJudged(level, context);
      for (const version of [1, 2, 3, 4, 5, 6])
        expect([version, started({ level, landlock: version })]).toMatchObject([
          version,
          { ...APART, kernel: expect.stringMatching(/^(EACCES|EROFS)$/) },
        ]);
    },
  );

verifies("walls.cuda", "without a network CUDA's calls succeed as well", async (context) => {
  await requireJudged("landlock", context);
  expect(started({ level: "landlock", fields: { network: "false", notifier: "true" } })).toMatchObject({
    ...STARTED,
    kernel: "EACCES",
  });
});

/** What another program than CUDA's says in its place, as `doctor` would be told. */
function probed(level: WallLevel, attempt: string): unknown {
  const program = `try:\n    ${attempt}\n    print("started")\nexcept OSError as error:\n    print(error.strerror)`;
  const code = `
import sys; sys.path.insert(0, ${JSON.stringify(PYTHON_DIR)})
from millrace_walls import probe_cuda
probe_cuda.PROGRAM = ${JSON.stringify(`import os, socket\n${program}`)}
probe_cuda.main()`;
  const folder = temporaryFolder();
  const host = { folder, data_dir: folder, harness: PYTHON_DIR, reads: [], user: String(FIRST_USER) };
  const asked = { ...host, level, has_notifier: true, variables: {} };
  const input = `${JSON.stringify(asked)}\n`;
  return JSON.parse(execFileSync("python3", ["-I", "-S", "-c", code], { input, encoding: "utf8" }));
}

verifies("doctor.cuda", "a start of CUDA that fails is told with the wall that stops it", async (context) => {
  await requireJudged("landlock", context);
  const unix = "socket.socket(socket.AF_UNIX).bind('')";
  expect(probed("landlock", unix)).toEqual({ bare: null, walled: null, walls: [] });
  const datagrams = "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)";
  const refused = { bare: null, walled: "Operation not permitted" };
  expect(probed("landlock", datagrams)).toEqual({ ...refused, walls: ["seccomp"] });
  const hidden = "os.listdir('/etc')";
  expect(probed("landlock", hidden)).toEqual({
    bare: null,
    walled: "Permission denied",
    walls: ["landlock"],
  });
  const missing = "os.stat('/nonexistent')";
  expect(probed("landlock", missing)).toEqual({ bare: "No such file or directory", walled: null, walls: [] });
});
