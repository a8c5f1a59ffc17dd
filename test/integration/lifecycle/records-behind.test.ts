import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, vi } from "vitest";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = "def run(n=0):\n    return n\n";

verifies(
  "records.behind",
  "calls are answered while the database cannot be written, and recorded after",
  async () => {
    const test = await testService({ echo: { main: MAIN } });
    await test.call("echo");
    await test.service.settle();
    const appNumber = test.apps.get("echo")?.app.number ?? 0;
    const other = new DatabaseSync(path.join(test.settings.dataDir, "millrace.db"));
    other.exec("begin immediate");
    try {
      for (let n = 0; n < 20; n++) expect((await test.call("echo", { n })).json.result).toBe(n);
      expect(await test.service.store.runs.count({ appNumber })).toBe(1);
    } finally {
      other.exec("rollback");
      other.close();
    }
    await test.service.settle();
    expect(await test.service.store.runs.count({ appNumber })).toBe(21);
  },
);

verifies("records.behind", "many records share one write", async () => {
  const test = await testService({ echo: { main: MAIN } });
  await test.call("echo");
  await test.service.settle();
  const { runs } = test.service.store;
  const insertFinished = runs.insertFinished.bind(runs);
  const answered = Promise.withResolvers<void>();
  const write = vi.spyOn(runs, "insertFinished").mockImplementation(async (batches) => {
    await answered.promise;
    return await insertFinished(batches);
  });
  await Promise.all(Array.from({ length: 200 }, (_, n) => test.call("echo", { n })));
  answered.resolve();
  await test.service.settle();
  const sizes = write.mock.calls.map(([batches]) =>
    batches.reduce((sum, batch) => sum + batch.runs.rowCount, 0),
  );
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(200);
  // Those that ended while the first was written.
  expect(sizes.length).toBe(2);
});
