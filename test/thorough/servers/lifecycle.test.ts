import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { type TestService, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const site = sharedService();

/** The first replica of an app. */
function replicaOf(service: TestService, app: string) {
  const [replica] = service.apps.get(app)?.pool.replicas ?? [];
  if (!replica) throw new Error(`${app} has no replica`);
  return replica;
}

function printed(app: string): string[] {
  return site()
    .logs.filter(({ appName }) => appName === app)
    .map(({ text }) => text);
}

describe("ports", () => {
  verifies("servers.port", "two replicas serve side by side, each on a port of its own", async () => {
    const app = await site().own(serverApp({ toml: "[scaling]\nmin_replicas = 2\nmax_replicas = 2\n" }));
    await until("both are ready", () => site().ready(app) === 2);
    const go = path.join(site().bundleDir(app), "go");
    const both = [1, 2].map(() => site().call(app, {}, { functionName: "slow" }));
    await until("both run", () => printed(app).filter((text) => text === "slow has begun").length === 2);
    writeFileSync(go, "");
    for (const { status } of await Promise.all(both)) expect(status).toBe(200);
    const pids = new Set([...(site().apps.get(app)?.pool.replicas ?? [])].map(({ pid }) => pid));
    expect(pids.size).toBe(2);
  });

  verifies(
    "servers.own-listener",
    "a neighbour on the replica's port gets nothing, and another port is tried",
    async () => {
      // It takes the port of whatever server of this service starts first, before that one gets there.
      const thief = serverApp(
        {
          runtime: 'entrypoint = ["python", "main.py"]',
          toml: "[scaling]\nmin_replicas = 1\nmax_replicas = 1\n",
        },
        `import os, socket, time
from http.server import BaseHTTPRequestHandler, HTTPServer
mine = HTTPServer(("127.0.0.1", int(os.environ["PORT"])), BaseHTTPRequestHandler)
stolen = []
first = int(os.environ["PORT"])
for port in range(first + 1, first + 9):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind(("127.0.0.1", port)); listener.listen(); stolen.append(listener)
    except OSError:
        pass
print("stolen", len(stolen), flush=True)
mine.serve_forever()
`,
      );
      const own = await testService({ thief });
      await until("it has taken the next ports", () =>
        own.logs.some(({ text }) => text.startsWith("stolen")),
      );
      await own.deploy("honest", serverApp());
      const answer = await own.call("honest", {}, { functionName: "echo" });
      expect(answer.status).toBe(200);
      expect(answer.json.pid).toBe(replicaOf(own, "honest").pid);
    },
  );
});

verifies(
  "servers.address",
  "a server that listens on IPv6 alone, on all its addresses, is reached",
  async () => {
    const has6 = Object.values(networkInterfaces()).some((all) =>
      all?.some(({ address }) => address === "::1"),
    );
    const main = serverApp()
      .main.replace(
        "class Server(ThreadingHTTPServer):",
        "class Server(ThreadingHTTPServer):\n    address_family = FAMILY",
      )
      .replace('Server(("127.0.0.1", port)', "Server((ADDRESS, port)");
    // Python's servers take no IPv4 where they are given an address of IPv6.
    const place = has6 ? ["socket.AF_INET6", '"::"'] : ["socket.AF_INET", '"0.0.0.0"'];
    const app = await site().own(
      serverApp({}, `import socket\nFAMILY, ADDRESS = ${place.join(", ")}\n${main}`),
    );
    expect((await site().call(app, {}, { functionName: "echo" })).status).toBe(200);
  },
);

verifies(
  "servers.own-listener",
  "a port that is taken while the server starts is left, with nothing sent to it",
  async () => {
    const late = serverApp().main.replace(
      'print("serving", flush=True)',
      `print("port", port, flush=True)
    if not os.path.exists("again"):
        open("again", "w").close()
        time.sleep(3600)`,
    );
    const app = await site().own(
      serverApp({ toml: "[scaling]\nmin_replicas = 1\nmax_replicas = 1\n" }, late),
    );
    await until("it has its port", () => printed(app).some((text) => text.startsWith("port ")));
    const port = Number(printed(app)[0]?.slice("port ".length));
    let connections = 0;
    const thief = createServer(() => (connections += 1));
    await new Promise<void>((resolve) => void thief.listen(port, "127.0.0.1", resolve));
    onTestFinished(() => void thief.close());
    await until("another port serves", () => site().ready(app) === 1);
    const answer = await site().call(app, {}, { functionName: "echo" });
    expect(answer.status).toBe(200);
    expect(answer.json.port).not.toBe(String(port));
    expect(printed(app).join("\n")).toContain(`another process listens on its port ${port}`);
    expect(connections).toBe(0);
  },
);

describe("starting", () => {
  verifies(
    "servers.start",
    "a server that ends at once tells why, and so does one that is not there",
    async () => {
      const broken = await site().own(
        serverApp({ runtime: 'entrypoint = ["python", "main.py"]' }, 'raise SystemExit("no weights found")'),
      );
      const answer = await site().call(broken, {}, { functionName: "echo" });
      expect(answer).toMatchObject({ status: 503, json: { code: "app_not_ready" } });
      expect(answer.json.message).toMatch(/ended before it was ready \(exit code 1\): no weights found/);
      const said = site().logs.filter(
        ({ appName, text }) => appName === broken && text === "no weights found",
      );
      // Each try has said it once.
      expect(new Set(said.map(({ replicaId }) => replicaId)).size).toBe(said.length);
      expect(said).not.toEqual([]);
      const missing = await site().own(serverApp({ runtime: 'entrypoint = "no-such-program --x"' }));
      const nothing = await site().call(missing, {}, { functionName: "echo" });
      expect(nothing.json.message).toMatch(/no-such-program: No such file or directory/);
    },
  );

  verifies("servers.start", "a server that is not ready in time has failed to start", async () => {
    const app = await site().own(
      serverApp({
        runtime: 'readycheck_endpoint = "/echo?status=500"',
        toml: "[deployment]\ndeployment_initialization_timeout = 3\n",
      }),
    );
    const answer = await site().call(app, {}, { functionName: "echo" });
    expect(answer.status).toBe(503);
    expect(answer.json.message).toMatch(
      /not ready within deployment_initialization_timeout \(3 s\): .*(answered 500|listens)/,
    );
  });
});

describe("checks", () => {
  verifies("servers.ready-check", "while it is not ready it gets no calls", async () => {
    const app = await site().own(
      serverApp({
        runtime: 'readycheck_endpoint = "/readyz"',
        toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 4\n",
      }),
    );
    await site().call(app, {}, { functionName: "state", suffix: "?ready=503" });
    const replica = replicaOf(site(), app);
    await until("it is out of rotation", () => replica.isSilent);
    const waiting = site().call(app, {}, { functionName: "echo" });
    await until("the call waits", () => site().apps.get(app)?.pool.slots.waiting === 1);
    // Past the service: nobody else could tell it.
    const port = /--port\0(\d+)/.exec(readFileSync(`/proc/${replica.pid}/cmdline`, "utf8"))?.[1];
    await fetch(`http://127.0.0.1:${port}/state?ready=200`);
    expect((await waiting).status).toBe(200);
    expect(replica.isSilent).toBe(false);
  });

  verifies(
    "servers.health-check",
    "three failed checks end a replica, and another takes its place",
    async () => {
      const app = await site().own(
        serverApp({
          runtime: 'healthcheck_endpoint = "/healthz"',
          toml: "[scaling]\nmin_replicas = 1\nmax_replicas = 1\n",
        }),
      );
      await site().call(app, {}, { functionName: "state", suffix: "?health=500" });
      const first = replicaOf(site(), app);
      await until("it was ended", () => first.state === "gone");
      expect(printed(app).join("\n")).toMatch(
        /its health check failed 3 times in a row: \/healthz answered 500/,
      );
      expect((await site().call(app, {}, { functionName: "echo" })).status).toBe(200);
    },
  );
});

describe("ends", () => {
  verifies("servers.stop", "a replica finishes its calls, then ends by itself", async () => {
    const polite = serverApp().main.replace(
      "class Server",
      'import signal\nsignal.signal(signal.SIGTERM, lambda *_: (print("asked to end", flush=True), os._exit(0)))\n\nclass Server',
    );
    const app = await site().own(serverApp({ toml: "[scaling]\ncooldown = 0\n" }, polite));
    const slow = site().call(app, {}, { functionName: "slow" });
    await until("it runs", () => printed(app).includes("slow has begun"));
    const old = replicaOf(site(), app);
    const bundleDir = site().bundleDir(app);
    await site().deploy(app, serverApp({}, `${polite}\n# another version`));
    expect((await site().call(app, {}, { functionName: "echo" })).status).toBe(200);
    expect(printed(app)).not.toContain("asked to end");
    writeFileSync(path.join(bundleDir, "go"), "");
    expect((await slow).status).toBe(200);
    await until("it has ended", () => old.state === "gone");
    expect(printed(app)).toContain("asked to end");
  });

  verifies("servers.died", "a replica that dies fails its own calls alone", async () => {
    const app = await site().own(serverApp({ toml: "[scaling]\nmax_replicas = 2\n" }));
    const slow = site().call(app, {}, { functionName: "slow" });
    await until("it runs", () => printed(app).includes("slow has begun"));
    const others = Promise.all(
      Array.from({ length: 10 }, () => site().call(app, {}, { functionName: "echo" })),
    );
    process.kill(replicaOf(site(), app).pid, "SIGKILL");
    expect(await slow).toMatchObject({ status: 502, json: { code: "app_crashed" } });
    for (const { status } of await others) expect(status).toBe(200);
    const exit = await site().call(app, {}, { functionName: "exit" });
    expect(exit).toMatchObject({ status: 502, json: { code: "app_crashed" } });
    expect(exit.json.message).toContain("exit code 3");
    expect((await site().call(app, {}, { functionName: "echo" })).status).toBe(200);
  });
});

verifies("servers.scaling", "a server that computes gets a second replica by cpu_utilization", async () => {
  const busy = serverApp().main.replace(
    "class Server",
    `import threading
def burn():
    while not os.path.exists("enough"):
        pass
threading.Thread(target=burn, daemon=True).start()

class Server`,
  );
  const app = await site().own(
    serverApp(
      {
        toml: `[hardware]\ncpu = 0.1\n[scaling]\nmax_replicas = 2\nreplica_concurrency = 10\ncooldown = 3600\nscaling_metric = "cpu_utilization"\nscaling_target = 10\nevaluation_interval_seconds = 1\n`,
      },
      busy,
    ),
  );
  onTestFinished(() => writeFileSync(path.join(site().bundleDir(app), "enough"), ""));
  expect((await site().call(app, {}, { functionName: "echo" })).status).toBe(200);
  await until("there are two", () => site().ready(app) === 2);
});
