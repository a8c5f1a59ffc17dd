import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { uuidBytes } from "../../../../src/kit/ids.ts";
import type { Payload } from "../../../../src/model/run.ts";
import { packPayloads, payloads } from "../../../../src/store/runs/payloads.ts";
import { packEnded } from "../../../../src/store/runs/ended-runs.ts";
import { runs } from "../../../../src/store/runs/runs.ts";
import { sampleEnd, samplePayload, sampleRun } from "../../../support/sample-run.ts";
import { sqliteSession } from "../../../support/sqlite-session.ts";

const session = sqliteSession();

const bytesOf = ({ input, result }: Payload) => (input?.length ?? 0) + (result?.length ?? 0);
const insert = (rows: Parameters<typeof packPayloads>[0]) =>
  session().insertColumns("payloads", packPayloads(rows).rows, ["input", "result"]);

/** Rows with columns that repeat, that vary, and that are missing, in numbers on both sides of a statement's. */
const someRows = fc
  .array(
    fc.record({
      input: fc.option(fc.uint8Array({ maxLength: 40 })),
      contentType: fc.constantFrom(null, "application/json", "text/event-stream"),
      isBare: fc.boolean(),
    }),
    { maxLength: 90, size: "max" },
  )
  .map((fields) => fields.map((each) => ({ run: sampleRun(), payload: samplePayload(each) })));

describe("rows written as columns", () => {
  test("are all found again as they were, and counted", async () => {
    await fc.assert(
      fc.asyncProperty(someRows, async (rows) => {
        const bytes = rows.reduce((sum, { payload }) => sum + bytesOf(payload), 0);
        expect(await insert(rows)).toEqual({ rows: rows.length, bytes });
        for (const { run, payload } of rows) {
          const input = payload.input && new Uint8Array(payload.input);
          expect(await payloads.find.run(session(), run)).toEqual({ ...payload, input });
        }
      }),
      { numRuns: 40 },
    );
  });

  test("that are there already stay as they are, and are not counted", async () => {
    await fc.assert(
      fc.asyncProperty(someRows, fc.nat(), async (rows, seed) => {
        const isOld = (i: number) => (i * 7 + seed) % 5 === 0;
        const old = rows.filter((_, i) => isOld(i)).map(({ run }) => ({ run, payload: OLD }));
        const fresh = rows.filter((_, i) => !isOld(i));
        await insert(old);
        const bytes = fresh.reduce((sum, { payload }) => sum + bytesOf(payload), 0);
        expect(await insert(rows)).toEqual({ rows: fresh.length, bytes });
        for (const { run } of old)
          expect((await payloads.find.run(session(), run))?.input).toEqual(OLD.input);
        for (const { run } of fresh) expect(await payloads.find.run(session(), run)).not.toBeNull();
      }),
      { numRuns: 40 },
    );
  });

  test("twice in one batch are written once", async () => {
    const rows = Array.from({ length: 30 }, () => ({ run: sampleRun(), payload: OLD }));
    expect(await insert([...rows, ...rows])).toEqual({ rows: 30, bytes: 30 * bytesOf(OLD) });
  });

  test("that fail take the rows before them along", async () => {
    session().database.exec("begin immediate; savepoint operation");
    const ends = Array.from({ length: 50 }, () => sampleEnd(sampleRun()));
    // No such state: the column may not be null.
    const broken = ends.map((end, i) => (i === 45 ? sampleEnd({ ...end.run, state: "?" as never }) : end));
    await expect(
      runs.insertFinished.run(session(), runs.insertFinished.pack([packEnded(broken)])),
    ).rejects.toThrow("NOT NULL");
    session().database.exec("rollback to operation; release operation; commit");
    for (const { run } of ends) expect(await runs.find.run(session(), run)).toBeNull();
    await runs.insertFinished.run(session(), runs.insertFinished.pack([packEnded(ends)]));
    for (const { run } of ends) expect((await runs.find.run(session(), run))?.id).toBe(run.id);
  });

  test("of all kinds do not make statements without end", async () => {
    // Which columns repeat differs from batch to batch.
    for (let kind = 0; kind < 256; kind++) {
      const varied = (bit: number, row: number) => ((kind >> bit) & 1) * row;
      const ends = Array.from({ length: 20 }, (_, row) =>
        sampleEnd(
          sampleRun({
            statusCode: 200 + varied(0, row),
            attempt: 1 + varied(1, row),
            interruptions: varied(2, row),
            queueMs: varied(3, row),
            runMs: varied(4, row),
            responseMs: varied(5, row),
            ip: `10.0.0.${varied(6, row)}`,
            replicaId: `r-${varied(7, row)}`,
          }),
        ),
      );
      await runs.insertFinished.run(session(), runs.insertFinished.pack([packEnded(ends)]));
      expect(await runs.find.run(session(), ends[19]!.run)).toEqual(ends[19]!.run);
    }
  });
});

const OLD = samplePayload({ input: new Uint8Array(uuidBytes("018f0000-0000-7000-8000-00000000abcd")) });
