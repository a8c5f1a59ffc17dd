import { describe, expect } from "vitest";
import { memoryBytes } from "../../support/process-tree.ts";
import { RUNS_MAIN, range, stored } from "../../support/run-apps.ts";
import { serveApps } from "../../support/serve-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { StreamReader, openEvents, openStream } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const MIB = 1024 * 1024;
const SIZE = 8 * 1024;
/** Several, so that what a garbage collection leaves for later is little for each. */
const PAUSED = 8;
const COUNT = (64 * MIB) / SIZE;

/** Yields no faster than any disk writes: what is measured is the reader, not what waits for the disk. */
const STEADY = `${RUNS_MAIN}
def steady(upto, size):
    for i, chunk in enumerate(count(upto, size)):
        yield chunk
        if i % 128 == 0:
            time.sleep(0.02)
`;

const service = sharedService({
  app: { main: RUNS_MAIN, toml: "[limits]\nmax_transcript = '128MiB'\n" },
  short: { main: RUNS_MAIN, toml: "[limits]\nmax_transcript = '256KiB'\n" },
});

describe("readers of /events", () => {
  verifies(
    "runs.events.no-pacing",
    "those who pause hold up nobody, cost the service little each, and get all of 64 MiB later",
    async () => {
      const toml = "[scaling]\nmax_replicas = 1\n[limits]\nmax_transcript = '128MiB'\n";
      const served = await serveApps({ app: { main: STEADY, toml } });
      const { token } = served;
      const open = (call: string, body: object | null = null): StreamReader =>
        new StreamReader({
          url: `${served.url}/app/${call}`,
          token,
          method: body ? "POST" : "GET",
          body: body ? JSON.stringify(body) : "",
        });
      const run = async (readers: number): Promise<[live: StreamReader, ...events: StreamReader[]]> => {
        const live = open("steady", { upto: COUNT, size: SIZE });
        await live.hasHead();
        const events = Array.from({ length: readers }, () => open(`runs/${live.runId}/events`));
        for (const reader of events) await reader.hasHead();
        return [live, ...events];
      };
      // What such a stream and a reader who keeps up cost.
      for (const reader of await run(1)) await reader.ended();
      const before = memoryBytes(served.command.pid);

      const [live, ...paused] = await run(PAUSED);
      for (const { socket } of paused) socket.pause();
      await live.ended();
      expect([live.isWhole, live.messages.length]).toEqual([true, COUNT]);
      for (const { messages } of paused) expect(messages.length).toBeLessThan(COUNT / 2);
      expect((memoryBytes(served.command.pid) - before) / PAUSED).toBeLessThan(8 * MIB);

      const [last, ...others] = paused;
      for (const reader of others) reader.leave();
      last?.socket.resume();
      await last?.ended();
      expect(last?.numbers).toEqual(range(1, COUNT));
      expect(last?.end?.record).toMatchObject({ id: live.runId, status: "success" });
      expect(last?.data.slice(0, -1)).toEqual(live.data);
    },
  );

  verifies(
    ["runs.events", "runs.events.no-pacing"],
    "many at once, from different places, each get every message once while it is written",
    async () => {
      const body = { upto: 20_000, size: 300 };
      const live = openStream(service(), "app", body, { functionName: "count" });
      await live.hasMessages(1);
      const readers = [0, 1, 500, 5_000, 19_999, 20_000].map((after) => ({
        after,
        reader: openEvents(service(), "app", live.runId, after),
      }));
      await live.ended();
      for (const { after, reader } of readers) {
        await reader.ended();
        expect(reader.numbers).toEqual(range(after + 1, 20_000));
        expect(reader.data.slice(0, -1)).toEqual(live.data.slice(after));
        expect(reader.end?.id).toBe(20_001);
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
