import { describe, expect } from "vitest";
import { liveBytes } from "../../support/live-memory.ts";
import { RUNS_MAIN, letGo, range, stored } from "../../support/run-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openEvents } from "../../support/stream-reader.ts";
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
});
