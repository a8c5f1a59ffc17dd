import { describe, expect } from "vitest";
import { liveBytes } from "../../support/live-memory.ts";
import { RUNS_MAIN, letGo, range, stored } from "../../support/run-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openEvents, openStream } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const MIB = 1024 * 1024;
const SIZE = 8 * 1024;
const PAUSED = 8;
/** Far more than the kernel takes for a reader who has stopped. */
const COUNT = (16 * MIB) / SIZE;

const service = sharedService({
  app: { main: RUNS_MAIN, toml: "[limits]\nmax_transcript = '128MiB'\n" },
  short: { main: RUNS_MAIN, toml: "[limits]\nmax_transcript = '256KiB'\n" },
});

describe("readers of /events", () => {
  verifies(
    "runs.events.no-pacing",
    "those who pause hold up nobody, cost the service little each, and get all of 16 MiB later",
    async () => {
      const live = await fetch(service().url("app", "gated"), {
        method: "POST",
        headers: {
          authorization: `Bearer ${service().service.owner.token}`,
          "content-type": "application/json",
        },
        body: JSON.stringify({ gate: "paused", before: 1, after: COUNT - 1, size: SIZE }),
      });
      const runId = live.headers.get("x-request-id") ?? "";
      const paused = Array.from({ length: PAUSED }, () => openEvents(service(), "app", runId));
      for (const reader of paused) {
        await reader.hasMessages(1);
        reader.socket.pause();
      }
      const before = await liveBytes();
      letGo(service(), "app", "paused");
      let bytes = 0;
      for await (const piece of live.body ?? []) bytes += piece.length;
      expect(bytes).toBe(COUNT * (SIZE + "data: \n\n".length));
      await stored(service(), "app", runId);
      // All that they have not read would be 80 MiB and more.
      expect(((await liveBytes()) - before) / PAUSED).toBeLessThan(MIB);

      const [last, ...others] = paused;
      for (const reader of others) reader.leave();
      last?.socket.resume();
      await last?.ended();
      expect(last?.numbers).toEqual(range(1, COUNT));
      expect(last?.end?.record).toMatchObject({ id: runId, status: "success" });
      const wrong = last?.data.slice(0, -1).findIndex((data, i) => data !== `${i + 1} `.padEnd(SIZE, "."));
      expect(wrong).toBe(-1);
    },
  );

  verifies(
    ["runs.events", "runs.events.no-pacing"],
    "many at once, from different places, each get every message once while it is written",
    async () => {
      const body = { upto: 6_000, size: 300 };
      const live = openStream(service(), "app", body, { functionName: "count" });
      await live.hasMessages(1);
      const readers = [0, 1, 500, 3_000, 5_999, 6_000].map((after) => ({
        after,
        reader: openEvents(service(), "app", live.runId, after),
      }));
      await live.ended();
      for (const { after, reader } of readers) {
        await reader.ended();
        expect(reader.numbers).toEqual(range(after + 1, 6_000));
        expect(reader.data.slice(0, -1)).toEqual(live.data.slice(after));
        expect(reader.end?.id).toBe(6_001);
      }
    },
  );
});

describe("past max_transcript", () => {
  verifies(
    "stream.max-transcript.live",
    "a live stream goes on, and its events begin with `truncated`",
    async () => {
      const body = { upto: 4_000, size: 1024 };
      const live = await openStream(service(), "short", body, { functionName: "count" }).ended();
      expect([live.isWhole, live.messages.length]).toEqual([true, 4_000]);
      // While its last parts are on their way to the store, more of its beginning may go.
      await stored(service(), "short", live.runId);
      const reader = await openEvents(service(), "short", live.runId).ended();
      const [from = 0] = reader.numbers;
      expect(reader.messages.filter(({ event }) => event === "truncated")).toHaveLength(1);
      expect(reader.messages[0]).toMatchObject({
        id: null,
        event: "truncated",
        data: JSON.stringify({ firstEvent: from }),
      });
      expect(reader.numbers).toEqual(range(from, 4_000));
      expect(from).toBeGreaterThan(4_000 - 256);
      expect(from).toBeLessThan(4_000 - 128);
      // Who asks for what is there is told of no gap.
      const late = await openEvents(service(), "short", live.runId, 3_990).ended();
      expect(late.numbers).toEqual(range(3_991, 4_000));
      expect(late.messages[0]?.event).toBeNull();
      // What is not there from its beginning is not the result.
      const { status, json } = await service().ofRun("short", live.runId, "result");
      expect([status, json.code]).toEqual([410, "payload_not_kept"]);
      const record = await service().ofRun("short", live.runId);
      expect(record.json).toMatchObject({ status: "success", result: null });
    },
  );
});
