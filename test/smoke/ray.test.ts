import { afterAll, describe, expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { RayCluster } from "../support/ray/ray-cluster.ts";
import { testService } from "../support/service.ts";
import { openStream } from "../support/stream-reader.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const ray = await RayCluster.find(process.env);
afterAll(async () => await ray?.down());
const databases = testDatabases();

const APP = {
  main: "import os\ndef run():\n    return os.getpid()\ndef ticks(count):\n    yield from range(count)\n",
};

describe.skipIf(ray === null)("Ray in short", () => {
  verifies("ray.same", "deploy, call, stream, kill an actor", async () => {
    const { address } = ray!;
    const { databaseUrl } = await databases.fresh("postgres");
    const on = await testService({ app: APP }, { databaseUrl, engine: "ray", rayAddress: address });
    const first = (await on.call("app")).json.result as number;
    const stream = openStream(on, "app", { count: 500 }, { functionName: "ticks" });
    await stream.ended();
    expect(stream.messages).toHaveLength(500);
    const [actor] = await ray!.seatProcesses();
    process.kill(actor, "SIGKILL");
    await until("its replica is gone", () => on.ready("app") === 0);
    const { status, json } = await on.call("app");
    expect(status).toBe(200);
    expect(json.result).not.toBe(first);
    await on.service.stop();
    await until("no actor is left", async () => (await ray!.seats()).length === 0);
  });
});
