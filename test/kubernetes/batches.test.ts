import { describe } from "vitest";
import { BATCHED, expectBatches } from "../support/batched-app.ts";
import { testDatabases } from "../support/databases.ts";
import { podService } from "../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER } from "../support/kubernetes/real-cluster.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();

describe.skipIf(!TEST_CLUSTER)("batches in pods", () => {
  verifies("batching.everywhere", "calls share batches and steppers in a pod", async () => {
    const { on, namespace } = await podService(databases, { app: BATCHED });
    await expectBatches(on, "app");
    await on.service.stop();
    await namespace.untilEmpty();
  });
});
