import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { checkCuda, lookAtWalls } from "../../src/cli/operator/doctor/host-checks.ts";
import { WALL_LEVELS } from "../../src/host/walls/walls.ts";
import { testSettings } from "../support/test-settings.ts";
import { type TestService, testService } from "../support/service.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { type Altered, alteredHost, temporaryFolder } from "../support/walls/altered-host.ts";
import { requireJudged } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";
import { hardware, requireGpu } from "./gpu-machine.ts";

const FEATURES = readFileSync(path.join(REPOSITORY, "test/gpu/features.py"), "utf8");
/** A program in a file: processes that it spawns import it. */
const RUN_AS_FILE = `
import os, sys
path = os.path.join(os.environ["HOME"], "features.py")
with open(path, "w") as file:
    file.write(sys.argv[1])
os.execv(sys.executable, [sys.executable, path, *sys.argv[2:]])
`;

const OPEN = { network: "true", management_port: "1", unix_sockets: "true" } as const;

/** How each use of the GPU ended, but for those that are left out. */
function used(python: string, altered: Altered, without: readonly string[] = []): Record<string, string> {
  const args = [...alteredHost(altered, temporaryFolder()), RUN_AS_FILE, FEATURES, ...without];
  const answer = execFileSync(python, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const ends = JSON.parse(answer.trim().split("\n").at(-1) ?? "") as Record<string, string>;
  return Object.fromEntries(Object.entries(ends).filter(([, end]) => end !== "ok"));
}

for (const level of WALL_LEVELS)
  verifies("gpu.walls", `on ${level} a GPU can be used in every way`, async (context) => {
    const python = requireGpu(context);
    await requireJudged(level, context);
    // What needs paths of sockets, or datagrams, needs `unix_sockets = true` there.
    const without = { process: ["shared", "loaded", "collective"], landlock: ["collective"] };
    expect(used(python, { level }, level in without ? without[level as keyof typeof without] : [])).toEqual(
      {},
    );
    if (level in without) expect(used(python, { level, fields: OPEN })).toEqual({});
  });

for (const level of ["userns", "uid"] as const)
  for (const landlock of [1, 2, 3, 4, 5])
    verifies(
      "gpu.walls",
      `on ${level} a GPU can be used in every way with version ${landlock} of Landlock`,
      async (context) => {
        const python = requireGpu(context);
        await requireJudged(level, context);
        // Compiled kernels are moved between folders, from which the first version keeps root.
        const isRoot = level === "userns" && landlock === 1 && process.getuid?.() === 0;
        expect(used(python, { level, landlock }, isRoot ? ["compiled"] : [])).toEqual({});
      },
    );

/** All of them at once. */
const PART = hardware(4);

const AT_IMPORT = `
import torch
ONES = torch.ones(3, device="cuda")

def run():
    return float(ONES.sum())
`;
const IN_A_FORK = `
import os
import torch

def run():
    return [float(torch.ones(3, device="cuda").sum()), os.getppid() > 1]
`;
const IN_SETUP = `
import torch
weights = torch.ones(3)

def setup():
    global weights
    weights = weights.to("cuda")

def run():
    return [float(weights.sum()), weights.device.type]
`;
const SERVER = `
import http.server, json, os
import torch

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.dumps(float(torch.ones(3, device="cuda").sum())).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;
const SERVER_TOML = `${PART}
[runtime.custom]
entrypoint = ["python", "server.py"]
port = 8000
`;

async function called(service: TestService, app: string): Promise<unknown> {
  const { status, json, text } = await service.call(app);
  expect([app, status, text]).toEqual([app, 200, expect.any(String)]);
  return json.result ?? json;
}

verifies(
  "gpu.apps",
  "apps use a GPU at their import, first in a forked replica, and as a server",
  async (context) => {
    const python = requireGpu(context);
    const apps = {
      early: { main: AT_IMPORT, toml: PART },
      late: { main: IN_A_FORK, toml: PART },
      prepared: { main: IN_SETUP, toml: PART },
      served: { main: "", files: { "server.py": SERVER }, toml: SERVER_TOML },
    };
    const service = await testService(apps, { isolation: "auto", python });
    expect(await called(service, "early")).toBe(3);
    expect(await called(service, "late")).toEqual([3, true]);
    expect(await called(service, "prepared")).toEqual([3, "cuda"]);
    expect(await called(service, "served")).toBe(3);
  },
);

verifies("doctor.cuda", "doctor starts CUDA behind the isolation of apps", async (context) => {
  const python = requireGpu(context);
  const settings = testSettings({ dataDir: temporaryFolder(), python, isolation: "auto" });
  const walls = await lookAtWalls(settings, process.env);
  expect(await checkCuda(settings, walls, process.env)).toMatchObject({
    status: "ok",
    message: `starts behind ${walls.level}`,
  });
});
