import { describe, expect } from "vitest";
import { FAR_END } from "../../../src/gateway/events/feed.ts";
import { RUNS_MAIN, counted, letGo } from "../../support/run-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openEvents, openStream, type StreamReader } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

/** Yields more in its first attempt, which ends with its process, than in the second. */
const DYING = `${RUNS_MAIN}
import signal

def dying(run_id):
    mark = gate_file(run_id)
    if os.path.exists(mark):
        yield from count(3)
        return
    open(mark, "w").close()
    yield from count(5)
    wait_for("die")
    os.kill(os.getpid(), signal.SIGKILL)
`;
const service = sharedService({
  app: { main: RUNS_MAIN },
  dying: { main: DYING, toml: "[scaling]\nmax_replicas = 1\nmax_attempts = 2\n" },
  nothing: { main: RUNS_MAIN, toml: '[deployment]\nrecord_payloads = "none"\n' },
});

const stream = (functionName: string, body: object = {}, app = "app") =>
  openStream(service(), app, body, { functionName });
const events = (runId: string, after: number | null = null, app = "app") =>
  openEvents(service(), app, runId, after);

/** Looks at once, when the run may be on its way to the store, and again when it is there. */
async function twice(look: () => Promise<void>): Promise<void> {
  await look();
  await service().service.settle();
  await look();
}

/** What a reader got but the end: number, type and data of each message. */
const gotten = (reader: StreamReader): unknown[][] =>
  reader.messages.slice(0, -1).map(({ id, event, data }) => [id, event, data]);

describe("a reader beyond what is stored", () => {
  verifies(
    ["runs.events.beyond", "runs.events.end-number"],
    "tells a reader that is beyond it that something is missing, whatever number it names",
    async () => {
      const { runId } = await stream("count", { upto: 20 }).ended();
      await twice(async () => {
        for (const after of [22, 1_000_000, FAR_END - 1]) {
          const reader = await events(runId, after).ended();
          expect(gotten(reader)).toEqual([[null, "truncated", '{"firstEvent":null,"lastEvent":20}']]);
          expect(reader.end).toMatchObject({ id: FAR_END, record: { status: "success" } });
        }
        expect((await events(runId, FAR_END).ended()).head?.status).toBe(204);
      });
      for (const wrong of ["-1", "1e3", "1.0", "0x15", "", "1000000000000000", "21,22", " 21 22"]) {
        const headers = { "last-event-id": wrong };
        const reader = await openEvents(service(), "app", runId, null, { headers }).ended();
        expect([wrong, reader.head?.status]).toEqual([wrong, 400]);
      }
    },
  );

  verifies("runs.events.beyond", "says so where what the run gave is not kept", async () => {
    const large = await service().call("app", { value: "x".repeat(70_000) }, { functionName: "echo" });
    const unkept = await stream("count", { upto: 3 }, "nothing").ended();
    await twice(async () => {
      for (const [app, id] of [
        ["app", large.json.run_id as string],
        ["nothing", unkept.runId],
      ] as const) {
        // How much there was, nobody knows any more: none of these has had the end.
        for (const after of [null, 0, 1, 2, 3, 4]) {
          const reader = await events(id, after, app).ended();
          expect(gotten(reader)).toEqual([[null, "truncated", '{"firstEvent":null,"lastEvent":null}']]);
          expect(reader.end).toMatchObject({ id: FAR_END, record: { status: "success" } });
        }
        expect((await events(id, FAR_END, app).ended()).head?.status).toBe(204);
      }
    });
  });

  verifies(
    "runs.events.beyond",
    "keeps a reader waiting that is beyond it, and tells it at the end that something is missing",
    async () => {
      const live = stream("gated", { gate: "beyond", before: 2, after: 2 });
      await live.hasMessages(2);
      const readers = [3, 5, 1_000].map((after) => events(live.runId, after));
      for (const reader of readers) await reader.hasHead();
      letGo(service(), "app", "beyond");
      const ended = await Promise.all(readers.map((reader) => reader.ended()));
      const [near, end, far] = ended.map(gotten);
      expect(near).toEqual([["4", null, "m4"]]);
      // 5 is the number of the end, which nobody can have before it.
      const missing = [[null, "truncated", '{"firstEvent":null,"lastEvent":4}']];
      expect([end, far]).toEqual([missing, missing]);
      expect(ended.map((reader) => reader.end?.id)).toEqual([5, FAR_END, FAR_END]);
    },
  );

  verifies(
    ["runs.events.beyond", "runs.events.end-number"],
    "does not take a chunk of an attempt that was given up for the end of the one that counts",
    async () => {
      const { json } = await service().call("dying", {}, { functionName: "dying", suffix: "?async=true" });
      const id = json.run_id as string;
      const follower = events(id, null, "dying");
      await follower.hasMessages(5);
      letGo(service(), "dying", "die");
      await follower.ended();
      const missing = [null, "truncated", '{"firstEvent":null,"lastEvent":3}'];
      expect(gotten(follower).slice(5)).toEqual([missing]);
      expect(follower.end).toMatchObject({ id: FAR_END, record: { status: "success", attempt: 2 } });
      for (const after of [4, 5]) {
        const reader = await events(id, after, "dying").ended();
        expect([gotten(reader), reader.end?.id]).toEqual([[missing], FAR_END]);
      }
      const whole = await events(id, 0, "dying").ended();
      expect([whole.data.slice(0, -1), whole.end?.id]).toEqual([counted(3), FAR_END]);
    },
  );
});
