import { once } from "node:events";
import { constants, createGunzip, gunzipSync } from "node:zlib";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { GzipMember } from "../../../src/kit/gzip-member.ts";
import { SAMPLES, text, writeMember } from "../../support/gzip-samples.ts";

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
      expect(decoded.length).toBe(samples.length + 2);
      // Compared here byte by byte: expect takes 20 times as long for the same.
      expect(samples.findIndex((sample, i) => !decoded[i + 1]!.equals(sample))).toBe(-1);
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
