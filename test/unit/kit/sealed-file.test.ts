import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { createFile } from "../../../src/kit/files.ts";
import {
  BadSeal,
  HEAD_BYTES,
  isSealedFile,
  SealedReader,
  SealedSink,
  TAG_BYTES,
} from "../../../src/kit/sealed-file.ts";
import { verifies } from "../../verifies.ts";

const PIECE_BYTES = 300_000;

const dir = mkdtempSync(path.join(tmpdir(), "millrace-sealed-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const WORDS = "correct horse battery staple";
/** Small and cheap, so that every place of a file can be tried. */
const SMALL = { costBits: 10, chunkBytes: 64 };
const SEALED_BYTES = SMALL.chunkBytes + TAG_BYTES;

let last = 0;
function fileOf(bytes: Buffer): string {
  const file = path.join(dir, String((last += 1)));
  writeFileSync(file, bytes);
  return file;
}

async function seal(plain: Buffer, options = SMALL, pieceBytes = 50): Promise<Buffer> {
  const file = path.join(dir, String((last += 1)));
  const sink = await SealedSink.over(await createFile(file), WORDS, options);
  for (let at = 0; at < plain.length; at += pieceBytes) await sink.write(plain.subarray(at, at + pieceBytes));
  await sink.finish();
  expect((statSync(file).mode & 0o777).toString(8)).toBe("600");
  return readFileSync(file);
}

async function unseal(sealed: Buffer, passphrase = WORDS, pieceBytes = 37): Promise<Buffer> {
  const reader = await SealedReader.open(fileOf(sealed), passphrase);
  try {
    const parts: Buffer[] = [];
    for (;;) {
      const part = Buffer.alloc(pieceBytes);
      const count = await reader.read(part);
      if (count === 0) return Buffer.concat(parts);
      parts.push(part.subarray(0, count));
    }
  } finally {
    await reader.close();
  }
}

/** True when it is refused as it should be; false when it opens. */
async function isRefused(sealed: Buffer, passphrase = WORDS): Promise<boolean> {
  const error = await unseal(sealed, passphrase).then(
    () => null,
    (error: unknown) => error,
  );
  if (error !== null && !(error instanceof BadSeal)) throw error;
  return error !== null;
}

verifies("hardening.backup.sealed", "what was sealed opens again, of any size", async () => {
  for (const bytes of [0, 1, 63, 64, 65, 128, 129, 1000]) {
    const plain = randomBytes(bytes);
    const sealed = await seal(plain);
    expect(await unseal(sealed)).toEqual(plain);
    expect(sealed.length).toBe(HEAD_BYTES + bytes + TAG_BYTES * Math.max(1, Math.ceil(bytes / 64)));
    expect(await isSealedFile(fileOf(sealed))).toBe(true);
  }
  const large = randomBytes(2_500_000);
  const sealed = await seal(large, { costBits: 17, chunkBytes: 1024 * 1024 }, PIECE_BYTES);
  expect((await unseal(sealed, WORDS, 700_000)).equals(large)).toBe(true);
});

test("words open it however their letters are composed, and no other words do", async () => {
  const file = path.join(dir, "composed");
  const sink = await SealedSink.over(await createFile(file), "caf\u00e9 cr\u00e8me br\u00fbl\u00e9e", SMALL);
  await sink.write(Buffer.from("x"));
  await sink.finish();
  const sealed = readFileSync(file);
  expect(String(await unseal(sealed, "cafe\u0301 cre\u0300me bru\u0302le\u0301e"))).toBe("x");
  for (const other of ["", "cafe creme brulee", `${WORDS} `]) {
    await expect(unseal(sealed, other)).rejects.toThrow("the passphrase is wrong");
  }
});

verifies("hardening.backup.sealed", "cut at any byte, it is refused", async () => {
  const sealed = await seal(randomBytes(70));
  for (let bytes = 0; bytes < sealed.length; bytes++) {
    expect([bytes, await isRefused(sealed.subarray(0, bytes))]).toEqual([bytes, true]);
  }
});

verifies("hardening.backup.sealed", "changed at any byte, it is refused", async () => {
  const sealed = await seal(randomBytes(70));
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at]! ^= 1 << (at % 8);
    // A higher cost is tried for real; the others fail before.
    expect([at, await isRefused(changed)]).toEqual([at, true]);
  }
});

verifies("hardening.backup.sealed", "chunks cannot be moved, left out, doubled, added or mixed", async () => {
  const sealed = await seal(randomBytes(64 * 4));
  const other = await seal(randomBytes(64 * 4));
  const head = sealed.subarray(0, HEAD_BYTES);
  const chunks = (of: Buffer): Buffer[] =>
    [0, 1, 2, 3].map((n) => of.subarray(HEAD_BYTES + n * SEALED_BYTES, HEAD_BYTES + (n + 1) * SEALED_BYTES));
  const [a, b, c, d] = chunks(sealed) as [Buffer, Buffer, Buffer, Buffer];
  const [, , , z] = chunks(other) as [Buffer, Buffer, Buffer, Buffer];
  const orders = [
    [b, a, c, d],
    [a, b, d, c],
    [a, b, c],
    [b, c, d],
    [a, b, d],
    [d],
    [a, b, c, d, d],
    [a, b, c, c, d],
    [a, b, c, d, Buffer.alloc(1)],
    [a, b, c, d, Buffer.alloc(TAG_BYTES)],
    [a, b, c, z],
    [],
  ];
  for (const [place, order] of orders.entries()) {
    expect([place, await isRefused(Buffer.concat([head, ...order]))]).toEqual([place, true]);
  }
  expect(await isRefused(Buffer.concat([other.subarray(0, HEAD_BYTES), a, b, c, d]))).toBe(true);
});

verifies(
  "hardening.backup.sealed",
  "a head that asks for too much is refused before any of it is spent",
  async () => {
    const sealed = await seal(Buffer.from("x"));
    for (const [at, value] of [
      [16, 21],
      [16, 63],
      [16, 255],
      [16, 0],
      [17, 255],
      [18, 255],
      [20, 0xff],
    ] as const) {
      const changed = Buffer.from(sealed);
      changed[at] = value;
      await expect(unseal(changed)).rejects.toThrow("its head was changed, or a newer release wrote it");
    }
  },
);
