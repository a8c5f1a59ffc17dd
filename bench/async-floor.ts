import { createInterface } from "node:readline";
import { Batcher } from "../src/kit/batcher.ts";
import type { AcceptedRun } from "../src/store/runs/accepted-runs.ts";
import { openStore } from "../src/store/store.ts";
import { queuedRun, samplePayload } from "../test/support/sample-run.ts";
import { Histogram } from "./histogram.ts";
import type { GroupCommitJob, GroupCommitResult } from "./async-floor-client.ts";
import { CALL_BODY } from "./subject.ts";

// The floor of accepting: the store's own group commit with so many runs in flight, and nothing around it. A
// process of its own, `node async-floor.ts DATA_DIR [DATABASE_URL]`; as load.ts it takes one job per line.

const BATCH = 512;
const input = Buffer.from(CALL_BODY);
const [dataDir = "", databaseUrl = null] = process.argv.slice(2);
const store = await openStore({ dataDir, databaseUrl });
const accepts = new Batcher<AcceptedRun, void>(async (batch) => await store.runs.accept(batch), {
  maxItems: BATCH,
});

async function accept(job: GroupCommitJob): Promise<GroupCommitResult> {
  const latencies = new Histogram();
  const windowFrom = performance.now() + job.leadInMs;
  const windowTo = windowFrom + job.measureMs;
  const again = async () => {
    for (let now = performance.now(); now < windowTo;) {
      const sentAt = now;
      await accepts.add({ run: queuedRun(), payload: samplePayload({ input }), owner: null });
      now = performance.now();
      if (now >= windowFrom && now < windowTo) latencies.add((now - sentAt) * 1000);
    }
  };
  await Promise.all(Array.from({ length: job.inFlight }, again));
  return {
    perSecond: (latencies.count / job.measureMs) * 1000,
    p50Us: latencies.quantileUs(0.5),
    p99Us: latencies.quantileUs(0.99),
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await accept(JSON.parse(line) as GroupCommitJob)));
}
await store.close();
