import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { processesIn } from "../../support/leak-check.ts";
import { isAlive } from "../../support/process-tree.ts";
import { SeatSite } from "../../support/remote/seat-site.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const APP = { main: "def run():\n    return 5\n" };

verifies("seats.alone", "kill -9 of the service: its seats end themselves after the grace", async () => {
  const site = await SeatSite.make(databases, APP, 3_000);
  const service = await site.start(true);
  expect((await service.call()).json).toMatchObject({ result: 5 });
  const { begun } = await service.agents();
  await service.kill();
  await until("its seats have ended", () => begun.every((pid) => !isAlive(pid)));
  await until("with all they started", () => processesIn(site.folder).length === 0);
});
