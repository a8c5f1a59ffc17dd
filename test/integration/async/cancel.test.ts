import { describe, expect } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { MAIN, ONE, cancel, ended, ledger, letGo, look, recordOf, submit } from "./site.ts";

const databases = testDatabases();
const HOLD = { functionName: "hold" };
const CANCELLED = { status: "cancelled", statusCode: null, async: true, error: { code: "cancelled" } };

for (const kind of triedKinds("sqlite")) {
  describe(`on ${kind}`, () => {
    const service = sharedService({ app: { main: MAIN, toml: ONE } }, async () => {
      const { databaseUrl } = await databases.fresh(kind);
      return { ...WITHOUT_WALLS, ...(databaseUrl !== null && { databaseUrl }) };
    });

    verifies("runs.cancel", "a queued run that is cancelled is never executed", async () => {
      const test = service();
      const ids: string[] = [];
      for (let n = 0; n < 6; n++) ids.push(await submit(test, "app", { n }, HOLD));
      await until("one runs", () => ledger(test, "app").length === 1);
      // One that waits in memory for the slot, and one that waits in the store.
      for (const id of [ids[1]!, ids[4]!]) {
        expect((await cancel(test, "app", id)).status).toBe(202);
        expect(await recordOf(test, "app", id)).toMatchObject(CANCELLED);
        expect((await look(test, "app", id, "/result")).json.code).toBe("cancelled");
      }
      letGo(test, "app");
      await ended(test, "app", ids[5]!);
      expect(ledger(test, "app")).toEqual(["0", "2", "3", "5"]);
      expect(await recordOf(test, "app", ids[4]!)).toMatchObject(CANCELLED);
    });

    verifies(
      ["runs.cancel", "runs.cancel.finished"],
      "a running run is stopped and not tried again; a second cancel is 409",
      async () => {
        const test = service();
        const app = await test.own({ main: MAIN, toml: ONE });
        const id = await submit(test, app, { n: 1 }, HOLD);
        await until("it runs", () => ledger(test, app).length === 1);
        expect((await cancel(test, app, id)).status).toBe(202);
        const again = await cancel(test, app, id);
        expect([again.status, again.json.code]).toEqual([409, "run_finished"]);
        const record = await ended(test, app, id);
        expect(record).toMatchObject({ ...CANCELLED, attempt: 1 });
        const next = await submit(test, app, { n: 2 });
        expect((await ended(test, app, next)).status).toBe("success");
        expect((await cancel(test, app, next)).json.code).toBe("run_finished");
        expect(await recordOf(test, app, id)).toEqual(record);
        expect(ledger(test, app)).toEqual(["1", "2"]);
      },
    );
  });
}
