import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { openEvents } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ended, recordOf } from "../async/site.ts";
import { pair } from "./pair.ts";

const MAIN = `
import os
import time

def run(gate=None):
    while gate and not os.path.exists(gate):
        time.sleep(0.005)
`;
const both = pair({ app: { main: MAIN, toml: "[scaling]\nmax_replicas = 1\n" } });

verifies(
  ["queue.owner", "queue.events"],
  "a node that does not serve the app shows the same place, and its readers the events",
  async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "millrace-test-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const gate = path.join(folder, "go");
    const { owner, other } = await both.sides("app");
    const call = async (body: object): Promise<string> => {
      const { status, json } = await other.call("app", body, { suffix: "?async=true" });
      expect(status).toBe(202);
      return json.run_id;
    };
    // So that it is known how long a run takes.
    await ended(owner, "app", await call({}));
    const first = await call({ gate });
    await until("it runs", async () => (await recordOf(owner, "app", first)).status === "running");
    const ids = [await call({ gate }), await call({ gate })];
    const seen = await recordOf(other, "app", ids[1]!);
    expect(seen).toMatchObject({ status: "queued", position: 2, expectedStartAt: expect.any(String) });
    expect((await recordOf(owner, "app", ids[1]!)).position).toBe(2);
    const reader = openEvents(other, "app", ids[1]!);
    await until("its place", () => reader.messages.length > 0);
    expect(JSON.parse(reader.data[0]!)).toMatchObject({ position: 2, expectedStartAt: expect.any(String) });
    writeFileSync(gate, "");
    await reader.ended();
    expect(reader.end?.record).toMatchObject({ id: ids[1], status: "success" });
  },
);
