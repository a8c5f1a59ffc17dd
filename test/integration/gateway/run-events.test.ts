import { describe, expect, test } from "vitest";
import { FAR_END } from "../../../src/gateway/events/feed.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { RUNS_MAIN, counted, letGo, range, runningId, stored } from "../../support/run-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openEvents, openStream, type StreamReader } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const clock = new SkippingClock();
const service = sharedService(
  {
    app: { main: RUNS_MAIN, toml: "[scaling]\nmax_replicas = 2\n" },
    wrapped: { main: RUNS_MAIN, toml: '[deployment]\nsse = "wrap"\n' },
    nothing: { main: RUNS_MAIN, toml: '[deployment]\nrecord_payloads = "none"\n' },
  },
  {},
  { clock },
);

const stream = (functionName: string, body: object = {}, app = "app") =>
  openStream(service(), app, body, { functionName });
const events = (runId: string, after: number | null = null, app = "app") =>
  openEvents(service(), app, runId, after);

/**
 * Looks at once, when the run may be on its way to the store, and again when it is there. A long one, whose parts
 * go there first, has to be named.
 */
async function twice(look: () => Promise<void>, longRun: string | null = null): Promise<void> {
  await look();
  if (longRun !== null) await stored(service(), "app", longRun);
  await service().service.settle();
  await look();
}

/** What a reader got but the end: number, type and data of each message. */
const gotten = (reader: StreamReader): unknown[][] =>
  reader.messages.slice(0, -1).map(({ id, event, data }) => [id, event, data]);

describe("GET …/events of a run that has ended", () => {
  verifies(
    ["runs.events", "runs.events.ids", "runs.events.end"],
    "gives each chunk its number, then the end with its own and the record",
    async () => {
      const { runId } = await stream("values").ended();
      await twice(async () => {
        const reader = await events(runId).ended();
        expect(reader.isWhole).toBe(true);
        expect(gotten(reader)).toEqual([
          ["1", null, "two\nlines"],
          ["2", null, '{"a":[1,null]}'],
          ["3", null, "9007199254740993"],
          ["4", null, ""],
          ["5", null, '"quoted"'],
        ]);
        const { json } = await service().ofRun("app", runId);
        delete json.result;
        expect(reader.end).toEqual({ id: 6, record: json });
        expect(json).toMatchObject({ id: runId, status: "success", statusCode: 200 });
      });
    },
  );

  verifies("runs.events", "has the head of a stream, and gzip for who takes it", async () => {
    const { runId } = await stream("count", { upto: 500 }).ended();
    await twice(async () => {
      const plain = await events(runId).ended();
      const packed = openEvents(service(), "app", runId, null, { headers: { "accept-encoding": "gzip" } });
      await packed.ended();
      expect([packed.header("content-encoding"), packed.hasMember]).toEqual(["gzip", true]);
      expect(packed.text).toBe(plain.text);
      expect(packed.bodyBytes).toBeLessThan(plain.bodyBytes);
      for (const reader of [plain, packed]) {
        expect(reader.head?.status).toBe(200);
        expect(reader.header("content-type")).toBe("text/event-stream; charset=utf-8");
        expect(reader.header("cache-control")).toBe("no-cache");
        expect(reader.header("vary")).toBe("Accept-Encoding");
        expect(reader.header("x-accel-buffering")).toBe("no");
      }
    });
  });

  verifies("runs.events.ids", "drops an app's own numbers and keeps all else of its messages", async () => {
    const { runId } = await stream("own").ended();
    await twice(async () => {
      const reader = await events(runId).ended();
      expect(gotten(reader)).toEqual([
        ["1", "a", "x "],
        [null, null, "1"],
        ["2", null, "2"],
        ["3", null, "3"],
      ]);
      expect(reader.end?.id).toBe(4);
    });
    const wrapped = await stream("own", {}, "wrapped").ended();
    const again = await events(wrapped.runId, null, "wrapped").ended();
    expect(again.data.slice(0, -1)).toEqual(wrapped.data);
    expect(again.numbers).toEqual([1, 2, 3]);
  });

  verifies(["runs.events.resume", "runs.events.after-end"], "goes on after any number of it", async () => {
    const { runId } = await stream("count", { upto: 20 }).ended();
    await twice(async () => {
      for (const after of [0, 1, 7, 19, 20]) {
        const reader = await events(runId, after).ended();
        expect(reader.data.slice(0, -1)).toEqual(counted(20, after));
        expect(reader.numbers).toEqual(range(after + 1, 20));
        expect(reader.end?.id).toBe(21);
      }
      const { head, text } = await events(runId, 21).ended();
      expect([head?.status, text]).toEqual([204, ""]);
    });
  });

  verifies("runs.events.resume", "finds its place in a long transcript of many parts", async () => {
    const live = await stream("count", { upto: 8_000, size: 200 }).ended();
    await twice(async () => {
      for (const after of [0, 1, 81, 82, 4_000, 7_999]) {
        const reader = await events(live.runId, after).ended();
        expect(reader.numbers).toEqual(range(after + 1, 8_000));
        expect(reader.data.slice(0, -1)).toEqual(live.data.slice(after));
        expect(reader.end?.id).toBe(8_001);
      }
    }, live.runId);
  });

  verifies(
    ["runs.events", "runs.events.end"],
    "is of any mode: a plain value as if it had been yielded",
    async () => {
      for (const [body, data] of [
        [{ value: "text\nof two lines" }, "text\nof two lines"],
        [{ value: { a: 1 } }, '{"a":1}'],
        [{ value: null }, "null"],
      ] as const) {
        const { json } = await service().call("app", body, { functionName: "echo" });
        const id = json.run_id as string;
        await twice(async () => {
          const reader = await events(id).ended();
          expect(gotten(reader)).toEqual([["1", null, data]]);
          expect(reader.end).toMatchObject({ id: 2, record: { id, status: "success" } });
          expect((await events(id, 1).ended()).messages.map(({ event }) => event)).toEqual(["end"]);
          expect((await events(id, 2).ended()).head?.status).toBe(204);
        });
      }
    },
  );

  verifies("runs.events.end", "is the end alone where a run gave nothing", async () => {
    const late = stream("late", { gate: "late" });
    await clock.sets(1_000);
    clock.skip(1_000);
    await late.hasHead();
    letGo(service(), "app", "late");
    const ids: [string, unknown][] = [
      [(await stream("empty").ended()).runId, null],
      [(await late.ended()).runId, "app_error"],
    ];
    for (const [functionName, body, code] of [
      ["fail", {}, "app_error"],
      ["code", { code: 204 }, null],
      ["echo", { other: 1 }, "invalid_arguments"],
    ] as const) {
      const { headers } = await service().call("app", body, { functionName });
      ids.push([headers.get("x-request-id") ?? "", code]);
    }
    await twice(async () => {
      for (const [id, code] of ids) {
        const reader = await events(id).ended();
        expect(reader.messages.map(({ event }) => event)).toEqual(["end"]);
        expect([reader.end?.id, reader.end?.record.error?.code ?? null]).toEqual([1, code]);
        expect((await events(id, 1).ended()).head?.status).toBe(204);
      }
    });
  });

  verifies("runs.events.end", "tells of a stream that failed or was cancelled by its record", async () => {
    const failed = await stream("broken", { upto: 2 }).ended();
    const cancelled = stream("gated", { gate: "never", before: 2, after: 0 });
    await cancelled.hasMessages(2);
    await service().ofRun("app", cancelled.runId, "cancel", { method: "POST" });
    await cancelled.ended();
    await twice(async () => {
      for (const [{ runId }, status, statusCode] of [
        [failed, "failure", 500],
        [cancelled, "cancelled", null],
      ] as const) {
        const reader = await events(runId).ended();
        expect([reader.isWhole, reader.data.slice(0, -1)]).toEqual([true, counted(2)]);
        expect(reader.end).toMatchObject({ id: 3, record: { status, statusCode } });
      }
    });
  });

  test("is that of its own app, whoever reads it", async () => {
    const live = stream("gated", { gate: "own-app", before: 1, after: 0 });
    await live.hasMessages(1);
    const reader = events(live.runId);
    await reader.hasMessages(1);
    expect((await events(live.runId, null, "wrapped").ended()).head?.status).toBe(404);
    letGo(service(), "app", "own-app");
    await reader.ended();
  });
});

describe("GET …/events of a run under way", () => {
  verifies(
    ["runs.events", "runs.events.resume"],
    "follows it to its end, from its start or from a number",
    async () => {
      const live = stream("gated", { gate: "follow", before: 5, after: 5 });
      await live.hasMessages(5);
      const readers = [null, 0, 3, 5, 7].map((after) => ({
        after: after ?? 0,
        reader: events(live.runId, after),
      }));
      await readers[0]?.reader.hasMessages(5);
      await readers[2]?.reader.hasMessages(2);
      letGo(service(), "app", "follow");
      expect((await live.ended()).data).toEqual(counted(10));
      for (const { after, reader } of readers) {
        await reader.ended();
        expect(reader.numbers).toEqual(range(after + 1, 10));
        expect(reader.data.slice(0, -1)).toEqual(counted(10, after));
        expect(reader.end).toMatchObject({ id: 11, record: { status: "success" } });
      }
    },
  );

  verifies("runs.events", "waits for one that has not started yet", async () => {
    const busy = [0, 1].map(() => service().call("app", { gate: "queue" }, { functionName: "held" }));
    const queued: string[] = [];
    for (const functionName of ["count", "echo"]) {
      const body = functionName === "count" ? { upto: 3 } : { value: "m1" };
      const { json } = await service().call("app", body, { functionName, suffix: "?async=true" });
      queued.push(json.run_id as string);
    }
    const readers = queued.map((id) => events(id));
    for (const [i, reader] of readers.entries()) {
      expect((await reader.hasHead()).status).toBe(200);
      expect((await service().ofRun("app", queued[i] ?? "")).json.startedAt).toBeNull();
    }
    letGo(service(), "app", "queue");
    await Promise.all(busy);
    for (const [i, reader] of readers.entries()) {
      expect((await reader.ended()).data.slice(0, -1)).toEqual(counted(i === 0 ? 3 : 1));
      expect(reader.end?.record).toMatchObject({ async: true, status: "success" });
    }
  });

  verifies("runs.events", "gives the value of one that turns out not to stream", async () => {
    const answered = service().call("app", { gate: "plain" }, { functionName: "held" });
    const id = await runningId(service(), "app", "held");
    const readers = [events(id), events(id, 1)];
    for (const reader of readers) await reader.hasHead();
    letGo(service(), "app", "plain");
    await answered;
    expect(gotten(await (readers[0] as StreamReader).ended())).toEqual([["1", null, "let go"]]);
    expect((await (readers[1] as StreamReader).ended()).end).toMatchObject({ id: 2 });
  });

  test("misses nothing where nothing is kept, as long as it follows", async () => {
    const live = stream("gated", { gate: "unkept", before: 2, after: 2_000, size: 100 }, "nothing");
    await live.hasMessages(2);
    const reader = events(live.runId, null, "nothing");
    await reader.hasMessages(2);
    letGo(service(), "nothing", "unkept");
    await live.ended();
    await reader.ended();
    expect(reader.messages.filter(({ event }) => event === "truncated")).toEqual([]);
    expect(reader.data.slice(0, -1)).toEqual(live.data);
    expect(reader.end?.id).toBe(FAR_END);
    expect((await events(live.runId, FAR_END, "nothing").ended()).head?.status).toBe(204);
  });

  test("ends when its reader leaves, and the run goes on", async () => {
    const live = stream("gated", { gate: "reader-leaves", before: 2, after: 2 });
    await live.hasMessages(2);
    for (const isPolite of [true, false]) {
      const reader = events(live.runId);
      await reader.hasMessages(2);
      if (isPolite) reader.leave();
      else reader.vanish();
    }
    letGo(service(), "app", "reader-leaves");
    expect((await live.ended()).data).toEqual(counted(4));
    expect((await service().ofRun("app", live.runId)).json.status).toBe("success");
  });

  verifies("stream.leave", "does not keep a run alive whose caller has left", async () => {
    const live = stream("gated", { gate: "never", before: 2, after: 0 });
    await live.hasMessages(2);
    const reader = events(live.runId);
    await reader.hasMessages(2);
    live.leave();
    expect((await reader.ended()).end).toMatchObject({ id: 3, record: { status: "cancelled" } });
  });
});
