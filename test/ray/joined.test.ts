import { afterAll, describe, expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { isAlive } from "../support/process-tree.ts";
import { MachineApart, canStandApart } from "../support/ray/machine-apart.ts";
import { RayCluster } from "../support/ray/ray-cluster.ts";
import { rayService } from "../support/ray/ray-service.ts";
import { until } from "../support/until.ts";
import { ATTEMPTS } from "../support/walls/attempts.ts";
import { verifies } from "../verifies.ts";

const found = await RayCluster.find(process.env);
afterAll(async () => await found?.down());
const databases = testDatabases();

const PORT = 8_000;
const MAIN = `${ATTEMPTS}def run(host, port):
    return [os.getpid(), outcome(lambda: connect(socket.AF_INET, (host, port)))]
`;

describe.skipIf(!found?.isOwn || !canStandApart)("a cluster that grows", () => {
  const ray = found!;

  verifies("seats.neighbours", "a node that joins is out of reach of what runs already", async () => {
    const machine = new MachineApart();
    const { address: host } = machine;
    machine.run(["python3", "-m", "http.server", String(PORT)]);
    const on = await rayService(ray, databases, { app: { main: MAIN } }, { isolation: "auto" });
    const attempt = async (): Promise<unknown[]> => (await on.call("app", { host, port: PORT })).json.result;
    // Before it is Ray's, it is a machine like any other.
    await until("the machine is there", async () => (await attempt())[1] === "done");
    const [pid] = await attempt();
    const command = ray.nodeCommand(host, (await ray.nodes())[0] ?? "");
    const start = (): number => machine.run(command, { ...process.env, RAY_AUTH_MODE: "disabled" });
    let node = start();
    await until("it has joined", async () => {
      // Ray gives up a node that has not started within 30 s, which a busy machine can miss.
      if (!isAlive(node)) node = start();
      return (await ray.nodes()).includes(host);
    });
    await until("it is out of reach", async () => (await attempt())[1] === "PermissionError");
    expect(await attempt()).toEqual([pid, "PermissionError"]);
  });
});
