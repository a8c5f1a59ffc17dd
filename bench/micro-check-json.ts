// Time and rate of the body checker against JSON.parse: `node bench/micro-check-json.ts`.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { checkJson } from "../src/kit/json/check-json.ts";
import { checkJsonOffThread, closeJsonChecker } from "../src/gateway/json/off-thread.ts";

const BUDGET_MS = 400;

const record = (keys: number, from = 0) =>
  Object.fromEntries(Array.from({ length: keys }, (_, i) => [`field_${from + i}`, i]));

const bodies: Record<string, string> = {
  "small call": '{"name":"ada","n":3}',
  "chat, 3 messages": JSON.stringify({
    model: "small",
    stream: true,
    temperature: 0.2,
    messages: Array.from({ length: 3 }, () => ({
      role: "user",
      content: "Say it in one sentence. ".repeat(20),
    })),
  }),
  "base64, 200 KiB": JSON.stringify({ image: Buffer.alloc(150 * 1024, "millrace").toString("base64") }),
  "Chinese text, 200 KiB": JSON.stringify({ text: "水车与水渠".repeat(14_000) }),
  "escapes, 200 KiB": JSON.stringify({ text: 'line\n"quoted"\t'.repeat(11_000) }),
  "embeddings, 200 KiB": JSON.stringify({
    vectors: Array.from({ length: 40 }, (_, row) => Array.from({ length: 256 }, (_, i) => Math.sin(row + i))),
  }),
  "small integers, 200 KiB": JSON.stringify({ ids: Array.from({ length: 70_000 }, (_, i) => i % 100) }),
  "records of 3 keys, 200 KiB": JSON.stringify({ rows: Array.from({ length: 5_000 }, () => record(3)) }),
  "records of 16 keys, 200 KiB": JSON.stringify({ rows: Array.from({ length: 1_000 }, () => record(16)) }),
  "records of 32 keys, 200 KiB": JSON.stringify({ rows: Array.from({ length: 500 }, () => record(32)) }),
  "records of 33 keys, 200 KiB": JSON.stringify({ rows: Array.from({ length: 500 }, () => record(33)) }),
  "indented, 200 KiB": JSON.stringify({ rows: Array.from({ length: 2_000 }, () => record(3)) }, null, 2),
  "1,000,000 keys": JSON.stringify(record(1_000_000)),
};

/** Mean time of one call in nanoseconds, after a warm-up. */
function nsPerCall(call: () => unknown): number {
  const until = performance.now() + BUDGET_MS / 4;
  let batch = 0;
  do {
    call();
    batch += 1;
  } while (performance.now() < until);
  let calls = 0;
  const startedAt = performance.now();
  do {
    for (let i = 0; i < batch; i++) call();
    calls += batch;
  } while (performance.now() < startedAt + BUDGET_MS);
  return ((performance.now() - startedAt) * 1e6) / calls;
}

const rate = (bytes: number, ns: number) => `${((bytes / ns) * 1000).toFixed(0)} MB/s`.padStart(10);
const time = (ns: number) => `${ns < 1e5 ? ns.toFixed(0) : ns.toExponential(2)} ns`.padStart(12);

console.log(`${"body".padEnd(30)}${"bytes".padStart(10)}   checkJson               JSON.parse`);
for (const [name, text] of Object.entries(bodies)) {
  const body = Buffer.from(text);
  const checkNs = nsPerCall(() => checkJson(body));
  const parseNs = nsPerCall(() => JSON.parse(body.toString()));
  const cells = [time(checkNs), rate(body.length, checkNs), time(parseNs), rate(body.length, parseNs)];
  console.log(`${name.padEnd(30)}${String(body.length).padStart(10)}${cells.join("")}`);
}

const large = Buffer.from(JSON.stringify({ image: "A".repeat(32 * 1024 * 1024 - 20) }));
await checkJsonOffThread(large);
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
const startedAt = performance.now();
await checkJsonOffThread(large);
const tookMs = performance.now() - startedAt;
delay.disable();
console.log(
  `off the thread, 32 MiB: ${tookMs.toFixed(0)} ms, event loop held at most ${(delay.max / 1e6).toFixed(1)} ms`,
);
await closeJsonChecker();
