import { describe, expect } from "vitest";
import { storageReport } from "../../../src/apps/storage-report.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { AppError } from "../../../src/model/errors.ts";
import { type CountedRows, STEP_RUNS } from "../../../src/store/apps/app-storage.ts";
import { operationNamed } from "../../../src/store/operations.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { sampleEnd, samplePayload, sampleRun } from "../../support/sample-run.ts";
import { sampleStore } from "../../support/sample-store.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const { settings } = readSettings({ flags: {}, env: {} });
const RUNS = 2 * STEP_RUNS + 500;

describe.each(DATABASE_KINDS)("on %s", (kind) => {
  const sample = sampleStore(databases, kind);

  async function fill(runs: number): Promise<string> {
    const { number: appNumber, projectId } = await sample.newApp();
    const payload = samplePayload({ input: Buffer.alloc(30), result: Buffer.alloc(12) });
    const part = { firstEvent: 1, eventCount: 1, bytes: Buffer.from([3, 0, 0, 0, 65]) };
    const ends = Array.from({ length: runs }, () => sampleEnd(sampleRun({ appNumber }), { payload, part }));
    await sample.store().runs.insertFinished([packEnded(ends)]);
    return projectId;
  }

  verifies("cli.storage", "what an app stores is counted in steps, beside quick reads", async () => {
    const large = await fill(RUNS);
    const small = await fill(3);
    const store = sample.store();
    const steps: CountedRows[] = [];
    let timeouts = 2;
    const appStorage = {
      ...store.appStorage,
      count: async (step: Parameters<typeof store.appStorage.count>[0]) => {
        // As when figures that others asked for take all the time there is.
        if (timeouts-- > 0) throw new AppError("query_timeout");
        const counted = await store.appStorage.count(step);
        steps.push(counted);
        return counted;
      },
    };
    const where = { ...settings, dataDir: sample.dataDir() };
    const report = await storageReport({ ...store, appStorage }, where, null);
    const of = (projectId: string) => report.apps.find((app) => app.projectId === projectId);
    const bytes = (runs: number) => ({ payloadBytes: runs * 42, transcriptBytes: runs * 5 });
    expect(of(large)).toMatchObject({ runs: RUNS, ...bytes(RUNS) });
    expect(of(small)).toMatchObject({ runs: 3, ...bytes(3) });
    expect(Math.max(...steps.map(({ rows }) => rows))).toBe(STEP_RUNS);
    // Of checkpoints there are none: a look at each app.
    expect(steps).toHaveLength(3 * (3 + 1) + 2);
    for (const name of ["appStorage.list", "appStorage.count"])
      expect(operationNamed(name).isHeavy(undefined as never)).toBe(true);
  });
});
