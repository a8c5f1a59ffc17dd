import { describe, expect } from "vitest";
import { RUNS_MAIN, range, stored } from "../../support/run-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openEvents, openStream } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService({
  app: { main: RUNS_MAIN, toml: "[limits]\nmax_transcript = '128MiB'\n" },
  short: { main: RUNS_MAIN, toml: "[limits]\nmax_transcript = '256KiB'\n" },
});

describe("readers of /events", () => {
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
