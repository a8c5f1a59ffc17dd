import { onTestFinished } from "vitest";
import type { testDatabases } from "../databases.ts";
import { type TestApp, type TestService, testService } from "../service.ts";
import { until } from "../until.ts";
import type { RayCluster } from "./ray-cluster.ts";

/** A service whose replicas run on Ray. Nothing of it may be left there after the test. */
export async function rayService(
  ray: RayCluster,
  databases: ReturnType<typeof testDatabases>,
  apps: Record<string, TestApp>,
  flags: Record<string, unknown> = {},
): Promise<TestService> {
  const { databaseUrl } = await databases.fresh("postgres");
  onTestFinished(async () => {
    await until("no actor is left", async () => (await ray.seats()).length === 0);
    await until("no supervisor is left", async () => (await ray.supervisors()).length === 0);
  });
  return await testService(apps, { databaseUrl, engine: "ray", rayAddress: ray.address, ...flags });
}
