// Messages per second of SseBuffer, and a gzip stream's cost per piece and memory: `node bench/micro-sse.ts`.
import { once } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import { constants, createGzip, type Gzip } from "node:zlib";
import { GzipMember } from "../src/kit/gzip-member.ts";
import { SseBuffer } from "../src/runs/sse.ts";

const BUDGET_MS = 300;
const MESSAGES_PER_TICK = 64;

/** Mean microseconds of one call, after a warm-up. */
function usPerCall(call: () => unknown): number {
  for (const until = performance.now() + BUDGET_MS / 3; performance.now() < until;) call();
  let calls = 0;
  const startedAt = performance.now();
  do {
    for (let i = 0; i < 100; i++) call();
    calls += 100;
  } while (performance.now() < startedAt + BUDGET_MS);
  return ((performance.now() - startedAt) * 1000) / calls;
}

const chunks: Record<string, string> = {
  "5 bytes, a token": "token",
  "30 bytes": "x".repeat(30),
  "64 bytes": "x".repeat(64),
  "65 bytes": "x".repeat(65),
  "300 bytes, JSON": JSON.stringify({ id: "c", choices: [{ delta: { content: "y".repeat(250) } }] }),
  "4 KiB": "x".repeat(4096),
  "60 bytes, 3 lines": "a line of a text.\r\nanother one of the same\nand the last one..",
  "complete SSE, 38 bytes": `data: {"delta":"${"x".repeat(18)}"}\n\n`,
};

console.log(`messages/s, one thread, ${MESSAGES_PER_TICK} in a buffer, and one alone`);
for (const [name, text] of Object.entries(chunks)) {
  const chunk = { isText: true, bytes: Buffer.from(text) };
  const sse = new SseBuffer("auto");
  const joinedUs = usPerCall(() => {
    for (let i = 0; i < MESSAGES_PER_TICK; i++) sse.addChunk(chunk);
    return sse.take();
  });
  const aloneUs = usPerCall(() => {
    sse.addChunk(chunk);
    return sse.take();
  });
  const rate = (us: number) =>
    Math.round(1e6 / us)
      .toLocaleString("en")
      .padStart(14);
  console.log(`${name.padEnd(26)}${rate(joinedUs / MESSAGES_PER_TICK)}${rate(aloneUs)}`);
}

const WORDS =
  "the stream leads its water to a wheel and every run of an app ends once with one outcome; a caller who leaves early closes it, another reads on where he stopped, none waits for the disk".split(
    " ",
  );
let seed = 1;
const nextWord = () => {
  seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
  return WORDS[(seed >>> 16) % WORDS.length];
};
/** A message of words in no order. */
const message = (bytes: number) =>
  Buffer.from(
    `data: ${Array.from({ length: bytes }, nextWord)
      .join(" ")
      .slice(0, bytes - 8)}\n\n`,
  );
const KEPT = { level: 1, windowBits: 12, memLevel: 5 };
const PIECES = 64;

/** One message through a kept zlib stream, until its bytes are out. */
async function throughKept(gzip: Gzip, piece: Buffer): Promise<number> {
  gzip.write(piece);
  await new Promise<void>((resolve) => gzip.flush(constants.Z_SYNC_FLUSH, resolve));
  let bytes = 0;
  for (let out = gzip.read() as Buffer | null; out; out = gzip.read() as Buffer | null) bytes += out.length;
  return bytes;
}

console.log("\ngzip per piece: GzipMember, and a kept createGzip flushed per piece (time, its CPU, bytes)");
for (const size of [30, 200, 256, 511, 512, 2048, 16_384, 65_535]) {
  const pieces = Array.from({ length: PIECES }, () => message(size));
  const member = new GzipMember();
  let turn = 0;
  const memberUs = usPerCall(() => member.add(pieces[turn++ % PIECES]!));
  const memberBytes = pieces.reduce((sum, piece) => sum + member.add(piece).length, 0) / PIECES;
  const kept = createGzip(KEPT);
  await throughKept(kept, pieces[0]!);
  let keptBytes = 0;
  let calls = 0;
  const startedAt = performance.now();
  const startCpu = process.cpuUsage();
  for (; performance.now() < startedAt + BUDGET_MS; calls++) {
    keptBytes += await throughKept(kept, pieces[calls % PIECES]!);
  }
  const keptUs = ((performance.now() - startedAt) * 1000) / calls;
  const cpu = process.cpuUsage(startCpu);
  kept.destroy();
  const cells = [
    `${memberUs.toFixed(1)} µs`,
    `${memberBytes.toFixed(0)} bytes`,
    `${keptUs.toFixed(1)} µs`,
    `CPU ${((cpu.user + cpu.system) / calls).toFixed(1)} µs`,
    `${(keptBytes / calls).toFixed(0)} bytes`,
  ];
  console.log(`${String(size).padStart(6)}${cells.map((cell) => cell.padStart(16)).join("")}`);
}

const STREAMS = 2_000;

/** Resident bytes per stream, with each stream having sent one message. */
async function bytesPerStream<T>(open: () => Promise<T>): Promise<{ perStream: number; streams: T[] }> {
  const before = process.memoryUsage.rss();
  const streams: T[] = [];
  for (let i = 0; i < STREAMS; i++) streams.push(await open());
  await nextTurn();
  return { perStream: (process.memoryUsage.rss() - before) / STREAMS, streams };
}

const piece = message(200);
const members = await bytesPerStream(async () => {
  const member = new GzipMember();
  member.begin();
  member.add(piece);
  return member;
});
const openKept = (options: typeof KEPT | object) => async () => {
  const gzip = createGzip(options);
  await throughKept(gzip, piece);
  return gzip;
};
const small = await bytesPerStream(openKept(KEPT));
const plain = await bytesPerStream(openKept({}));
const kib = (bytes: number) => `${(bytes / 1024).toFixed(1)} KiB`;
console.log(
  `\nmemory per open stream: GzipMember ${kib(members.perStream)}, kept small ${kib(small.perStream)}, kept default ${kib(plain.perStream)}`,
);
for (const gzip of [...small.streams, ...plain.streams]) {
  gzip.destroy();
  await once(gzip, "close");
}
