import { packEnded } from "../../src/store/runs/ended-runs.ts";
import { openStore } from "../../src/store/store.ts";
import { sampleEnd } from "./sample-run.ts";

// A process that stores runs without end, many at a time, and prints each id once its write has resolved.

const WRITERS = 16;

const store = await openStore(JSON.parse(process.argv[2] ?? "{}") as Parameters<typeof openStore>[0]);

async function write(): Promise<never> {
  for (;;) {
    const ended = sampleEnd();
    await store.runs.insertFinished([packEnded([ended])]);
    process.stdout.write(`${ended.run.id}\n`);
  }
}

await Promise.all(Array.from({ length: WRITERS }, write));
