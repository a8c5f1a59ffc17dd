import { expect } from "vitest";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { KillableService } from "../../support/killable-service.ts";
import { LEDGER_APP, Ledger } from "../../support/ledger.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies(
  "async.predecessor",
  "what a killed service had is queued again before the next one on its directory is up",
  async () => {
    for (const kind of triedKinds("sqlite")) {
      const service = await KillableService.deploy(await databases.fresh(kind), { main: LEDGER_APP });
      await service.start();
      const { json } = await service.post(
        { n: 1, name: "go" },
        { functionName: "hold", query: "?async=true" },
      );
      await until("it runs", () => Ledger.read(service).begun(json.run_id) === 1);
      await service.kill();
      await service.start();
      // Said by its start, which does not wait for a lease.
      expect(service.command.stderr).toMatch(
        /"count":1,"msg":"requeued runs that an earlier service left unfinished/,
      );
      await service.kill();
    }
  },
);
