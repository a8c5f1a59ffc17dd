import { setTimeout as pause } from "node:timers/promises";
import { describe, expect } from "vitest";
import { testBucket } from "../support/blobs/test-bucket.ts";
import { breaches } from "../support/cluster/history-rules.ts";
import { scratchDirectory } from "../support/command-line.ts";
import { SilentProxy } from "../support/silent-proxy.ts";
import { verifies } from "../verifies.ts";
import { unexplained } from "./judge.ts";
import { site } from "./site.ts";

const AWAY_MS = Number(process.env["MILLRACE_CLUSTER_AWAY"] ?? 30) * 1_000;
const CALM_MS = 3_000;
/** More than is kept in Postgres. */
const PAD_BYTES = 1_500_000;

const bucket = testBucket();

const BLOWS: readonly (readonly [name: string, begin: (way: SilentProxy) => void])[] = [
  ["falls silent", (way) => way.fallSilent()],
  ["refuses", (way) => way.reset()],
];

describe.skipIf(bucket === null)("a bucket", () => {
  for (const [name, begin] of BLOWS) {
    verifies(
      "cluster.s3-away",
      `${name} for ${AWAY_MS / 1_000} s, under load with large results: nothing accepted is lost`,
      async () => {
        const given = new URL(process.env["MILLRACE_TEST_S3"] ?? "");
        const endpoint = new URL(given.searchParams.get("endpoint") ?? "");
        const way = await SilentProxy.openTo(Number(endpoint.port));
        given.searchParams.set("endpoint", way.url.replace("https:", "http:"));
        given.pathname += `/${Date.now()}/`;
        const { AWS_ACCESS_KEY_ID = "", AWS_SECRET_ACCESS_KEY = "" } = process.env;
        const env = {
          MILLRACE_BLOBS: given.href,
          MILLRACE_VOLUMES: scratchDirectory(),
          AWS_ACCESS_KEY_ID,
          AWS_SECRET_ACCESS_KEY,
        };
        const { cluster, load, promised, target } = await site({ env, padBytes: PAD_BYTES });
        load.start({ deploys: false });
        await pause(CALM_MS);
        begin(way);
        await pause(AWAY_MS);
        way.speak();
        await pause(CALM_MS);
        await load.stop();
        await promised.keep(target);
        const { counts, failures, wrong } = load;
        process.stderr.write(
          `${JSON.stringify(counts)}, ${promised.accepted.size} accepted, ${failures.length} failures\n`,
        );
        expect([wrong, promised.breaches]).toEqual([[], []]);
        expect(breaches(await cluster.history.read())).toEqual([]);
        expect(unexplained(failures, [], [], new Map())).toEqual([]);
      },
    );
  }
});
