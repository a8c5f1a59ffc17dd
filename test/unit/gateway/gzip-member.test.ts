import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { constants, createGunzip, gunzipSync } from "node:zlib";
import * as fc from "fast-check";
import { expect, test, vi } from "vitest";
import { GzipMember } from "../../../src/gateway/gzip-member.ts";

// Real processes, on a machine that may be busy with other suites.
vi.setConfig({ testTimeout: 30_000 });

const text = (bytes: number) =>
  Buffer.from("data: one message of a stream\n\n".repeat(bytes / 31 + 1)).subarray(0, bytes);
const SIZES = [0, 1, 30, 511, 512, 513, 2048, 65_534, 65_535, 65_536, 200_000];
const SAMPLES = [...SIZES.map(text), ...SIZES.map((size) => randomBytes(size)), text(30)];

/** The member's pieces: the header, one per sample, the end. */
function writeMember(samples: readonly Buffer[]): Buffer[] {
  const member = new GzipMember();
  return [member.begin(), ...samples.map((sample) => member.add(sample)), member.end()];
}

/** What a streaming gunzip gives for each piece before it gets the next. */
async function gunzipByPiece(pieces: readonly Buffer[]): Promise<Buffer[]> {
  const gunzip = createGunzip();
  let out: Buffer[] = [];
  gunzip.on("data", (data: Buffer) => out.push(data));
  const results: Buffer[] = [];
  for (const piece of pieces) {
    await new Promise<void>((resolve, reject) => {
      gunzip.write(piece, (error) => (error ? reject(error) : resolve()));
    });
    results.push(Buffer.concat(out));
    out = [];
  }
  gunzip.end();
  await once(gunzip, "end");
  return results;
}

test("each piece is decoded whole before the next one comes", async () => {
  const [head, ...rest] = await gunzipByPiece(writeMember(SAMPLES));
  expect(head).toHaveLength(0);
  expect(rest.pop()).toHaveLength(0);
  expect(rest.map((data, i) => data.equals(SAMPLES[i]!))).toEqual(SAMPLES.map(() => true));
});

test("the check by piece fails for a piece whose end comes with the next", async () => {
  const [head, first, second, end] = writeMember([text(2048), text(30)]) as [Buffer, Buffer, Buffer, Buffer];
  const late = Buffer.concat([first.subarray(-20), second]);
  const decoded = await gunzipByPiece([head, first.subarray(0, -20), late, end]);
  expect(decoded[1]!.length).toBeLessThan(2048);
  expect(Buffer.concat(decoded).length).toBe(2048 + 30);
});

test("the whole is one gzip member, and its trailer holds the check sum and the length", () => {
  const whole = Buffer.concat(writeMember(SAMPLES));
  expect(gunzipSync(whole).equals(Buffer.concat(SAMPLES))).toBe(true);
  const faults: [number, string][] = [
    [whole.length - 8, "incorrect data check"],
    [whole.length - 4, "incorrect length check"],
  ];
  for (const [at, message] of faults) {
    const broken = Buffer.from(whole);
    broken[at]! ^= 1;
    expect(() => gunzipSync(broken)).toThrow(message);
  }
});

test("a stream without its end is known to be cut", () => {
  const cut = Buffer.concat(writeMember([text(30)]).slice(0, -1));
  expect(() => gunzipSync(cut)).toThrow("unexpected end of file");
  expect(gunzipSync(cut, { finishFlush: constants.Z_SYNC_FLUSH }).equals(text(30))).toBe(true);
});

test("a member without data is an empty file", () => {
  expect(gunzipSync(Buffer.concat(writeMember([])))).toHaveLength(0);
});

test("random pieces come back", async () => {
  const data = fc.oneof(
    fc.uint8Array({ maxLength: 700 }).map((bytes) => Buffer.from(bytes)),
    fc.integer({ min: 0, max: 3000 }).map(text),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(data, { maxLength: 10 }), async (samples) => {
      const decoded = await gunzipByPiece(writeMember(samples));
      expect(decoded.slice(1, -1)).toEqual(samples);
    }),
    { numRuns: 200 },
  );
});

test("no piece grows by more than 5 bytes for each 64 KiB, and text of a tick shrinks", () => {
  const member = new GzipMember();
  for (const sample of SAMPLES) {
    expect(member.add(sample).length).toBeLessThanOrEqual(
      sample.length + 5 * Math.ceil(sample.length / 65_535),
    );
  }
  expect(member.add(text(2048)).length).toBeLessThan(300);
});

test("Python reads it", () => {
  const code = "import gzip, sys; sys.stdout.buffer.write(gzip.decompress(sys.stdin.buffer.read()))";
  const out = execFileSync("python3", ["-c", code], {
    input: Buffer.concat(writeMember(SAMPLES)),
    maxBuffer: 2 ** 24,
  });
  expect(out.equals(Buffer.concat(SAMPLES))).toBe(true);
});

test("curl --compressed prints each piece before the next is sent", async () => {
  const samples = [text(30), text(2048), randomBytes(700), text(31)];
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const curl = spawn("curl", ["-sN", "--compressed", `http://127.0.0.1:${port}/`]);
  try {
    const [, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
    const member = new GzipMember();
    response.writeHead(200, { "content-encoding": "gzip" });
    response.write(member.begin());
    const printing = curl.stdout[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    for (const sample of samples) {
      response.write(member.add(sample));
      let printed = Buffer.alloc(0);
      while (printed.length < sample.length) {
        const next = await printing.next();
        if (next.done) throw new Error("curl ended early");
        printed = Buffer.concat([printed, next.value]);
      }
      expect(printed.equals(sample)).toBe(true);
    }
    const closed = once(curl, "close");
    response.end(member.end());
    expect(await printing.next()).toMatchObject({ done: true });
    expect(await closed).toEqual([0, null]);
  } finally {
    curl.kill();
    server.close();
    server.closeAllConnections();
  }
});
