import { testDatabases, triedKinds } from "../../support/databases.ts";
import { KillableService } from "../../support/killable-service.ts";
import { endLeases } from "../../support/leases.ts";
import { LEDGER_APP } from "../../support/ledger.ts";
import { PromisedRuns } from "../../support/promised-runs.ts";
import { until } from "../../support/until.ts";
import { expectUsageOfRuns } from "../../support/usage-of-runs.ts";
import { verifies } from "../../verifies.ts";

const KILLS = 2;
const RUNS = 60;

const databases = testDatabases();

for (const kind of triedKinds("sqlite"))
  verifies(
    "usage.kills",
    `after ${KILLS} times kill -9 under sync and async calls, usage is the sum of what is recorded, on ${kind}`,
    async () => {
      const app = { main: LEDGER_APP, toml: "[scaling]\nmax_replicas = 2\n" };
      const service = await KillableService.deploy(await databases.fresh(kind), app);
      const promised = new PromisedRuns(service);
      for (let kill = 1; kill <= KILLS; kill++) {
        await service.start();
        let called = 0;
        const state = { isGone: false };
        const calling = (async () => {
          for (let n = 0; !state.isGone; n++) {
            const answer = await service.post({ n }).catch(() => null);
            if (!answer) return;
            called += 1;
          }
        })();
        const most = (RUNS * kill) / (KILLS + 1);
        const posting = promised.post(most, { ms: 20 });
        await until("calls were answered and accepted", () => called > 20 && promised.accepted.size >= most);
        await service.kill();
        state.isGone = true;
        await Promise.all([calling, posting]);
        await endLeases(service.database);
      }
      await service.start();
      await promised.post(RUNS, { ms: 20 });
      await promised.keep();
      await service.stop();
      const { projectId, appNumber } = service;
      await service.withStore((store) => expectUsageOfRuns(store, { projectId, appNumber, appName: "app" }));
    },
  );
