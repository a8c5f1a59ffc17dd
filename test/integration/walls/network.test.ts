import { spawnSync } from "node:child_process";
import { chownSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { PYTHON_DIR } from "../../../src/config/package-files.ts";
import { findInterpreter, startOf } from "../../../src/host/interpreter.ts";
import { networkFields, networkVariables } from "../../../src/host/walls/network.ts";
import { packPlan } from "../../../src/engines/local/plan.ts";
import { startService } from "../../../src/main.ts";
import { createLog } from "../../../src/kit/log.ts";
import { cheaply, testService } from "../../support/service.ts";
import { Tail } from "../../support/explain.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { OPEN_NETWORK } from "../../support/walls/open-network.ts";
import { FIRST_USER, requireJudged } from "../../support/walls/walled.ts";
import { TRIED_LEVELS } from "../../support/walls/tried-levels.ts";
import { verifies } from "../../verifies.ts";

const MAIN = "import os\n\ndef run():\n    return os.environ.get('RES_OPTIONS')\n";
const EGRESS = '[deployment]\nnetwork = "egress"\n';

async function verbose(baseUrl: string): Promise<Record<string, Record<string, string>>> {
  return (await (await fetch(`${baseUrl}/readyz?verbose`)).json()) as Record<string, Record<string, string>>;
}

verifies(
  "walls.network.unenforced",
  "without walls egress is refused, or runs with a warning, as the settings say; and that is told",
  async () => {
    const refusing = await testService();
    await expect(refusing.deploy("outward", { main: MAIN, toml: EGRESS })).rejects.toThrow(
      /network = "egress" is not enforced: apps live behind no walls.*MILLRACE_NETWORK_UNENFORCED=warn/,
    );
    expect((await verbose(refusing.service.baseUrl))["network"]).toEqual({
      true: expect.stringContaining("not enforced: apps live behind no walls"),
      egress: expect.stringContaining("not enforced: apps live behind no walls"),
      false: expect.stringContaining("not enforced"),
    });
    await expect(testService({}, { egressOnly: "true" })).rejects.toThrow(
      /MILLRACE_EGRESS_ONLY is set, but .*MILLRACE_NETWORK_UNENFORCED=warn/,
    );

    const warning = await testService({ app: { main: MAIN, toml: EGRESS } }, { networkUnenforced: "warn" });
    const { status, json } = await warning.call("app");
    expect([status, json.result]).toEqual([200, null]);
    // Under other settings, what was accepted before does not run unnoticed.
    await warning.service.stop();
    const settings = { ...warning.settings, networkUnenforced: "refuse" } as const;
    const again = await startService(settings, { ...cheaply({}), log: createLog("info", new Tail()) });
    try {
      const url = `${again.apiUrl}/v4/${again.owner.projectId}/app/run`;
      const headers = { authorization: `Bearer ${again.owner.token}`, "content-type": "application/json" };
      const answer = await fetch(url, { method: "POST", headers, body: "{}" });
      expect([answer.status, await answer.text()]).toEqual([
        expect.any(Number),
        expect.stringContaining('network = \\"egress\\" is not enforced'),
      ]);
      expect(answer.ok).toBe(false);
    } finally {
      await again.stop();
    }
  },
);

verifies(
  "walls.egress",
  "the setting makes egress of every app, and the app knows how to find names",
  async (context) => {
    await requireJudged("process", context);
    const apps = { app: { main: MAIN }, own: { main: MAIN, toml: EGRESS } };
    const service = await testService(apps, { isolation: "process", egressOnly: "true" });
    for (const app of Object.keys(apps)) expect((await service.call(app)).json.result).toBe("use-vc");
    expect((await verbose(service.service.baseUrl))["network"]).toEqual({
      true: "enforced",
      egress: "enforced",
      false: "enforced",
    });
  },
);

const PROBE_UNDER_A_FILTER = `
import sys; sys.path.insert(0, ${JSON.stringify(PYTHON_DIR)})
from millrace_walls import probe_network, seccomp
seccomp.install(seccomp.Rules(network="true", is_judged=False, unix="all", asks_unix=False, asks_names=False))
probe_network.main()
`;

verifies(
  "walls.network.unenforced",
  "where the host refuses what it takes, as in a container, the probe says so",
  async (context) => {
    await requireJudged("process", context);
    const folder = mkdtempSync(path.join(tmpdir(), "millrace-probe-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const question = {
      level: "process",
      folder,
      data_dir: "/nonexistent",
      harness: PYTHON_DIR,
      user: String(FIRST_USER),
    };
    const { stdout } = spawnSync("python3", ["-I", "-S", "-c", PROBE_UNDER_A_FILTER], {
      input: `${JSON.stringify(question)}\n`,
      encoding: "utf8",
    });
    expect(stdout).toBe("connections cannot be judged: Operation not permitted\n");
  },
);

const LOOK_UP = `
import socket
print(socket.getaddrinfo("model.example.test", 443, type=socket.SOCK_STREAM)[0][4][0])
`;

for (const level of TRIED_LEVELS) {
  verifies(
    "walls.egress",
    `on ${level} names are found over TCP, at a name server that is otherwise out of reach`,
    async (context) => {
      await requireJudged(level, context);
      const { path: python } = await findInterpreter("python3");
      if (process.getuid?.() !== 0 || spawnSync("unshare", ["-m", "mount", "--help"]).status !== 0) {
        process.stderr.write(
          "\nNOT TESTED: a name server of the test's own needs root and a mount namespace\n",
        );
        context.skip("a name server of the test's own needs root and a mount namespace");
      }
      const directory = mkdtempSync(path.join(tmpdir(), "millrace-names-"));
      onTestFinished(() => rmSync(directory, { recursive: true }));
      const user = level === "uid" ? FIRST_USER : null;
      const [bundle, storage, scratch] = ["bundle", "storage", "scratch"].map((name) => {
        const folder = path.join(directory, name);
        mkdirSync(folder);
        if (user !== null) chownSync(folder, user, user);
        return folder;
      }) as [string, string, string];
      const network = { ...OPEN_NETWORK, hasWalls: true, gap: null };
      const plan = packPlan({
        program: python,
        args: ["-c", LOOK_UP],
        cwd: bundle,
        env: { ...networkVariables("egress", network) },
        order: "{}",
        home: "/nonexistent",
        input: null,
        watched: null,
        server: null,
        walls: {
          host: { level, dataDir: directory, user, reads: [] },
          reach: {
            folders: { bundle, environment: null, storage },
            scratch,
            python: { interpreter: null, names: null },
            reads: [],
            writes: [],
            memoryBytes: null,
            unixSockets: false,
            network: networkFields("egress", network),
          },
        },
      });
      const server = path.join(REPOSITORY, "test/support/walls/name-server.py");
      const resolv = path.join(directory, "resolv.conf");
      const agent = [python, ...startOf("millrace_agent.local")];
      const command = [python, server, resolv, "127.0.0.153", "192.0.2.99", ...agent];
      const { stdout, stderr } = spawnSync("unshare", ["-m", ...command], {
        // Nobody talks to it.
        input: plan.replace("service=true\0", ""),
        encoding: "utf8",
      });
      expect([stdout, stderr]).toEqual(["192.0.2.99\n", ""]);
    },
  );
}
