import { BATCHED, expectBatches } from "../../support/batched-app.ts";
import { testDatabases } from "../../support/databases.ts";
import { remoteService } from "../../support/remote/remote-service.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies("batching.everywhere", "calls share batches and steppers in a seat elsewhere", async () => {
  const { on } = await remoteService(databases, { app: BATCHED });
  await expectBatches(on, "app");
});
