import { describe, expect, test } from "vitest";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { linesIn, MAIN, numbers, ofBatch, upload } from "../../integration/batches/batch-site.ts";

const databases = testDatabases();
const LINES = 100_000;
/** Many lines go into one run of the function's, so that a hundred thousand take seconds. */
const TOML = "[scaling]\nmax_replicas = 2\n[batching.run]\nmax_size = 500\n";
const TOGETHER = `${MAIN}\ndef run(n):\n    return [each * 2 for each in n]\n`;

describe.each(triedKinds("sqlite"))("a long batch on %s", (kind) => {
  const service = sharedService({}, async () => {
    const { databaseUrl } = await databases.fresh(kind);
    return { ...WITHOUT_WALLS, databaseUrl };
  });

  test(`${LINES} lines end, a bounded number of them in the queue, each once in the results`, async () => {
    const app = await service().own({ main: TOGETHER, toml: TOML });
    const answer = await upload(service(), app, numbers(LINES));
    expect([answer.status, answer.json.total]).toEqual([202, LINES]);
    const { id } = answer.json;
    const { store } = service().service;
    const appNumber = service().apps.get(app)!.app.number;
    const batch = async () => (await store.lineBatches.find({ appNumber, id }))!;
    const open = new Set<number>();
    await until("the batch has ended", async () => {
      const { fed, ended, completedAt } = await batch();
      open.add(fed - ended);
      return completedAt !== null;
    });
    expect(Math.max(...open)).toBeLessThanOrEqual(2_000);
    expect(await batch()).toMatchObject({ state: "completed", total: LINES, ended: LINES, succeeded: LINES });
    const lines = linesIn((await ofBatch(service(), app, `/${id}/results`)).text);
    expect(lines).toHaveLength(LINES);
    expect(lines.findIndex((line, i) => line.index !== i || line.result !== 2 * i)).toBe(-1);
    expect(new Set(lines.map((line) => line.run_id)).size).toBe(LINES);
    const finished = linesIn((await ofBatch(service(), app, `/${id}/results?order=finished`)).text);
    expect(new Set(finished.map(({ index }) => index)).size).toBe(LINES);
    expect((await store.lineBatches.block({ number: (await batch()).number, line: 0 })) ?? null).toBeNull();
  });
});
