import { createInterface } from "node:readline";
import type { StreamJob } from "./stream-job.ts";
import { StreamReading } from "./stream-reading.ts";

// Reads many streams at once, in a process of its own. As load.ts it takes one job per line on stdin, answers each
// with one line on stdout, and ends with its stdin.

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await new StreamReading(JSON.parse(line) as StreamJob).run()));
}
