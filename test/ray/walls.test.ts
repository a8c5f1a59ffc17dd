import { afterAll, describe, expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { RayCluster } from "../support/ray/ray-cluster.ts";
import { rayService } from "../support/ray/ray-service.ts";
import { serverApp } from "../support/servers/server-app.ts";
import { ATTEMPTS } from "../support/walls/attempts.ts";
import { verifies } from "../verifies.ts";

const found = await RayCluster.find(process.env);
afterAll(async () => await found?.down());
const databases = testDatabases();

/** Tries to be the cluster. */
const MAIN = `${ATTEMPTS}def run(ports, hosts, sockets, folders, pids):
    with socket.create_server(("127.0.0.1", 0)) as own:
        places = [(host, port) for host in hosts for port in ports]
        return {
            "ports": [outcome(lambda: connect(socket.AF_INET, each)) for each in places],
            "sockets": [outcome(lambda: connect(socket.AF_UNIX, each)) for each in sockets],
            "folders": [outcome(lambda: os.listdir(each)) for each in folders],
            "signals": [outcome(lambda: os.kill(each, 0)) for each in pids],
            "secrets": [outcome(lambda: open("/proc/%d/environ" % each, "rb").read()) for each in pids],
            "variables": sorted(name for name in os.environ if name.startswith("RAY")),
            "own": outcome(lambda: connect(socket.AF_INET, own.getsockname())),
            "stored": outcome(lambda: open(os.environ["PERSISTENT_STORAGE"] + "/x", "w").close()),
        }
def level():
    with open("/proc/self/status") as lines:
        return dict(line.split(":", 1) for line in lines)["Seccomp"].strip()
`;

describe.skipIf(found === null)("walls on Ray", () => {
  const ray = found!;

  verifies("ray.walls", "an app cannot act as the cluster", async () => {
    const on = await rayService(ray, databases, { app: { main: MAIN } }, { isolation: "auto" });
    const hosts = [...new Set(["127.0.0.1", ...(await ray.nodes())])];
    const inside = await ray.inside();
    const { json } = await on.call("app", { ...inside, hosts });
    const { own, stored, variables, ...refused } = json.result as Record<string, string[]>;
    expect({ own, stored, variables }).toEqual({ own: "done", stored: "done", variables: [] });
    expect(refused["ports"]).toHaveLength(inside.ports.length * hosts.length);
    for (const [what, outcomes] of Object.entries(refused))
      expect([what, outcomes.filter((outcome) => outcome === "done")]).toEqual([what, []]);
    expect(refused["ports"]?.every((outcome) => outcome === "PermissionError")).toBe(true);
    // It runs behind a filter, and the service knows behind what.
    expect((await on.call("app", {}, { functionName: "level" })).json.result).toBe("2");
    const { baseUrl } = on.service;
    const told = (await (await fetch(`${baseUrl}/readyz?verbose`)).json()) as { isolation: string };
    expect(["landlock", "userns"]).toContain(told.isolation);
  });

  verifies("ray.servers", "servers whose authors wrote the same port answer side by side", async () => {
    const port = Number(new URL(ray.address).port);
    const runtime = `entrypoint = "python main.py --port ${port}"\nport = ${port}\nreadycheck_endpoint = "/readyz"`;
    const apps = { one: serverApp({ runtime }), two: serverApp({ runtime }) };
    const on = await rayService(ray, databases, apps, { isolation: "auto" });
    for (const app of Object.keys(apps)) {
      const { json } = await on.call(app, { app }, { functionName: "echo" });
      expect(json.body).toBe(JSON.stringify({ app }));
      expect(json.port).not.toBe(String(port));
    }
  });
});
