import { existsSync, readdirSync } from "node:fs";
import { expect } from "vitest";
import type { Toll } from "../../src/cli/operator/chaos/load.ts";
import { untouchedPlace } from "../support/untouched-place.ts";
import { MILLRACE, run } from "../support/command-line.ts";
import { verifies } from "../verifies.ts";

verifies(
  "cli.chaos",
  "a replica and a service are killed under load: nothing is lost or stuck, and nothing is left",
  async () => {
    const { env, dataDir, temporary } = untouchedPlace();
    const { code, stdout, stderr } = await run(MILLRACE, ["doctor", "--chaos", "--json"], { env });
    expect([code, stderr]).toEqual([0, ""]);
    const verdict = JSON.parse(stdout) as Toll;
    expect(verdict).toMatchObject({ lost: 0, stuck: 0, finished: verdict.accepted });
    expect(verdict.accepted).toBeGreaterThan(20);
    expect(verdict.sync_calls.answered).toBeGreaterThan(20);
    // Each kill met a run, or it proved nothing.
    expect(verdict.duplicated).toBeGreaterThanOrEqual(2);
    expect([readdirSync(temporary), existsSync(dataDir)]).toEqual([[], false]);
  },
);
