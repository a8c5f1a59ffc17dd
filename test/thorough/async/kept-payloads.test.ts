import { describe, expect } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import type { TestService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { MAIN, ONE, ended, look, submit } from "../../integration/async/site.ts";

const databases = testDatabases();
const keeping = (what: string): { main: string; toml: string } => ({
  main: MAIN,
  toml: `${ONE}[deployment]\nrecord_payloads = "${what}"\n`,
});

/** What stands in the store of a run beside its record. */
async function stored({ service, apps }: TestService, app: string, id: string): Promise<unknown[]> {
  const key = { appNumber: apps.get(app)?.app.number ?? 0, id };
  const payload = await service.store.payloads.find(key);
  const part = await service.store.transcripts.next({ ...key, after: 0 });
  const bytes = [payload?.input, payload?.result, part?.bytes].map((found) => found?.length ?? 0);
  return bytes.map((length) => length > 0);
}

const APPS = {
  all: keeping("all"),
  async: keeping("async"),
  none: keeping("none"),
  cancelled: keeping("none"),
  app: { main: "def run(text, times=1):\n    return text * times\n", toml: ONE },
};

describe.for(DATABASE_KINDS)("on %s", (kind) => {
  const service = sharedService(APPS, async () => {
    const { databaseUrl } = await databases.fresh(kind);
    return { ...WITHOUT_WALLS, ...(databaseUrl !== null && { databaseUrl }) };
  });

  verifies(
    "kept.record-payloads",
    '"all" and "async" keep an async run\'s input and result, "none" nothing of it after its end',
    async () => {
      const test = service();
      for (const app of ["all", "async", "none"]) {
        const isKept = app !== "none";
        const plain = await submit(test, app, { n: "secret" });
        expect(await ended(test, app, plain)).toMatchObject({ status: "success", statusCode: 200 });
        expect(await stored(test, app, plain)).toEqual([isKept, isKept, false]);
        const failed = await submit(test, app, { n: "secret" }, { functionName: "fail" });
        await ended(test, app, failed);
        expect(await stored(test, app, failed)).toEqual([isKept, isKept, false]);
        const stream = await submit(test, app, { to: 100_000 }, { functionName: "count" });
        expect(await ended(test, app, stream)).toMatchObject({ status: "success" });
        expect(await stored(test, app, stream)).toEqual([isKept, false, isKept]);
        const sync = (await test.call(app, { n: "sync" })).headers.get("x-request-id") ?? "";
        await test.service.settle();
        expect(await stored(test, app, sync)).toEqual([app === "all", app === "all", false]);
        for (const view of ["/input", "/result"]) {
          expect((await look(test, app, plain, view)).status).toBe(isKept ? 200 : 410);
        }
      }
    },
  );
});
