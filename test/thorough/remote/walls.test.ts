import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, type TestContext } from "vitest";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { testDatabases } from "../../support/databases.ts";
import { freePort } from "../../support/free-port.ts";
import { remoteService, type RemoteService } from "../../support/remote/remote-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import type { TestApp } from "../../support/service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { until } from "../../support/until.ts";
import { ATTEMPTS } from "../../support/walls/attempts.ts";
import { standIn } from "../../support/walls/stand-ins.ts";
import { requireJudged, requireOffered } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

const MAIN = `${ATTEMPTS}def run(files=(), ports=(), paths=(), pids=()):
    with socket.create_server(("127.0.0.1", 0)) as own:
        return {
            "files": [outcome(lambda: open(path, "rb").read(1)) for path in files],
            "ports": [outcome(lambda: connect(socket.AF_INET, ("127.0.0.1", port))) for port in ports],
            "paths": [outcome(lambda: connect(socket.AF_UNIX, path)) for path in paths],
            "pids": [outcome(lambda: os.kill(pid, 0)) for pid in pids],
            "own": outcome(lambda: connect(socket.AF_INET, own.getsockname())),
            "stored": outcome(lambda: open(os.path.join(os.environ["PERSISTENT_STORAGE"], "x"), "w").close()),
            "temporary": outcome(lambda: open(os.path.join(os.environ["TMPDIR"], "x"), "w").close()),
            "bound": outcome(lambda: socket.create_server(("127.0.0.1", 21500)).close()),
        }
def echo(x):
    return x
def ticks(count):
    yield from range(count)
`;
const APP: TestApp = { main: MAIN };

async function seated(apps: Record<string, TestApp>, flags: Record<string, unknown>): Promise<RemoteService> {
  return await remoteService(databases, apps, { flags, isShared: true });
}

/** What the service says of the walls around its apps. */
async function level({ on }: RemoteService): Promise<unknown> {
  const answer = await fetch(`${on.service.baseUrl}/readyz?verbose`);
  return ((await answer.json()) as { isolation: unknown }).isolation;
}

/** A Python of a machine that lacks something. */
function lackingPython(folder: string, what: string): string {
  const file = path.join(folder, "python3");
  const lacking = path.join(REPOSITORY, "test/support/walls/lacking.py");
  writeFileSync(
    file,
    `#!/bin/sh\nexec python3 ${lacking} ${what} - "$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')" "$@"\n`,
  );
  chmodSync(file, 0o755);
  return file;
}

for (const lack of ["nothing", "namespaces", "namespaces,landlock"] as const) {
  const given = { nothing: "userns", namespaces: "landlock", "namespaces,landlock": "process" } as const;
  verifies(
    ["seats.walls", "seats.walls-told"],
    `an app reaches only what is its own, where the machine lacks ${lack}`,
    async (context: TestContext) => {
      await requireJudged(given[lack], context);
      const seats = await seated({}, { isolation: "auto" });
      const { on, place, folder } = seats;
      place.python = lackingPython(on.directory, lack);
      await on.deploy("app", APP);
      expect((await on.call("app", { x: [1, 2] }, { functionName: "echo" })).json.result).toEqual([1, 2]);
      expect(await level(seats)).toBe(given[lack]);

      mkdirSync(path.join(folder, "neighbour"));
      const secret = path.join(folder, "neighbour", "secret");
      writeFileSync(secret, "token");
      const [own = ""] = readdirSync(folder).filter((name) => name.startsWith("millrace-seat-"));
      const port = await standIn("127.0.0.1", "hello");
      const ports = [
        port,
        ...[on.service.apiUrl, on.service.baseUrl].map((url) => Number(new URL(url).port)),
      ];
      const tried = {
        files: ["/etc/passwd", secret, path.join(on.settings.dataDir, "master.key")],
        ports,
        paths: [path.join(folder, own, "h", "s")],
        pids: [place.seats[0]?.pid],
      };
      const { files, paths, pids, ...rest } = (await on.call("app", tried)).json.result;
      const bounds = { own: "done", stored: "done", temporary: "done", bound: "PermissionError" };
      expect(rest).toEqual({ ...bounds, ports: ports.map(() => "PermissionError") });
      const hasFiles = given[lack] !== "process";
      const refused = expect.stringMatching(/^(PermissionError|FileNotFoundError|ProcessLookupError)$/);
      expect(paths).toEqual([refused]);
      if (hasFiles) expect([files, pids]).toEqual([["done", refused, refused], [refused]]);
      // The leak check finds what agents have left there.
      await on.service.stop();
      rmSync(path.join(folder, "neighbour"), { recursive: true });
    },
  );
}

verifies("seats.walls", "an app without a network has none, and is called all the same", async (context) => {
  await requireOffered("process", context);
  const toml = "[deployment]\nnetwork = false\n";
  const { on } = await seated({ app: { main: MAIN, toml } }, { isolation: "auto" });
  expect((await on.call("app", { x: 3 }, { functionName: "echo" })).json.result).toBe(3);
  expect((await on.call("app")).json.message).toMatch(/PermissionError/);
});

verifies("seats.walls-asked", "a level that the machine does not give is no start", async (context) => {
  await requireJudged("userns", context);
  const { on, place } = await seated({}, { isolation: "userns" });
  place.python = lackingPython(on.directory, "namespaces");
  await on.deploy("app", APP);
  const { status, json } = await on.call("app", { x: 1 }, { functionName: "echo" });
  expect([status, json.message]).toEqual([
    503,
    expect.stringMatching(/MILLRACE_ISOLATION=userns, but its machine cannot give that: no new namespaces/),
  ]);
});

for (const isolation of ["auto", "none"] as const) {
  verifies(
    "seats.named-python",
    `a shell finds the seat's interpreter as python, with isolation ${isolation}`,
    async () => {
      const { on, place } = await seated({}, { isolation });
      const { base } = await findInterpreter("python3");
      const script = path.join(on.directory, "python3");
      writeFileSync(script, `#!/bin/sh\nPATH=/nonexistent exec ${base} "$@"\n`, { mode: 0o755 });
      place.python = script;
      const command =
        "for name in python python3; do $name -c 0 || exit; done; exec python main.py --port $PORT";
      const runtime = `entrypoint = ["/bin/sh", "-c", "${command}"]\nport = 8000\nreadycheck_endpoint = "/readyz"`;
      await on.deploy("app", serverApp({ runtime }));
      const { status, text } = await on.call("app", { x: 1 }, { functionName: "echo" });
      expect([status, text]).toEqual([200, expect.stringContaining("x")]);
    },
  );
}

for (const isolation of ["auto", "none"] as const) {
  verifies(
    "seats.ports",
    `two servers whose authors wrote the same port answer side by side, with isolation ${isolation}`,
    async () => {
      const port = await standIn("127.0.0.1", "somebody else");
      const runtime = `entrypoint = "python main.py --port ${port}"\nport = ${port}\nreadycheck_endpoint = "/readyz"`;
      const { on } = await seated(
        { one: serverApp({ runtime }), two: serverApp({ runtime }) },
        { isolation },
      );
      const echo = async (app: string) => (await on.call(app, { app }, { functionName: "echo" })).json;
      const [one, two] = [await echo("one"), await echo("two")];
      expect([one.body, two.body]).toEqual(['{"app":"one"}', '{"app":"two"}']);
      expect(new Set([one.port, two.port, String(port)]).size).toBe(3);
    },
  );
}

/** A server with its port in its code. */
function stubborn(port: number) {
  const main = serverApp().main.replace('int(os.environ["PORT"])\n', `${port}\n`);
  const runtime = `entrypoint = ["python", "main.py"]\nport = ${port}`;
  return serverApp({ runtime, toml: "[scaling]\nmin_replicas = 2\nmax_replicas = 2\n" }, main);
}

verifies(
  "seats.ports",
  "without walls a port in the code is found, and such a server is one replica",
  async () => {
    const port = await freePort();
    const { on } = await seated({ app: stubborn(port) }, { isolation: "none" });
    const answers = await Promise.all([1, 2, 3].map(() => on.call("app", {}, { functionName: "echo" })));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    const said = `listens on port ${port} whatever PORT says: it runs as one replica`;
    await until("that is told", () => on.logs.some(({ text }) => text.includes(said)));
  },
);

verifies("seats.ports", "behind walls each replica has a port of its own in its place", async (context) => {
  await requireJudged("userns", context);
  const { on } = await seated({ app: stubborn(await freePort()) }, { isolation: "auto" });
  await until("two are ready", () => on.ready("app") === 2);
  expect((await on.call("app", {}, { functionName: "echo" })).status).toBe(200);
  expect(on.logs.map(({ text }) => text).join("\n")).not.toContain("it runs as one replica");
});
