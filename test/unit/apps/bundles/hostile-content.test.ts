import { randomBytes } from "node:crypto";
import { deflateRawSync } from "node:zlib";
import { expect, test } from "vitest";
import { MAIN, refusal, type RefusedZips, unpacked } from "../../../support/refused-zip.ts";
import { bytes, extraField, makeZip, type ZipItem } from "../../../support/zip-maker.ts";
import { verifies } from "../../../verifies.ts";

const zeros = Buffer.alloc(3_000_000);
const noise = randomBytes(200_000);

/** So many entries alike, but for their names. */
function many(count: number, item: Omit<ZipItem, "name">): ZipItem[] {
  return Array.from({ length: count }, (_, index) => ({ ...item, name: `a${index}` }));
}

const CASES: RefusedZips = {
  "a stored file of two sizes": [
    makeZip([MAIN, { name: "a", content: "abc", method: 0, bytes: 2 }]),
    /declares two different sizes/,
  ],
  "a size that is too small": [
    makeZip([MAIN, { name: "a", content: "abcdef", bytes: 3 }]),
    /^`a` unpacks to more than its declared size\.$/,
  ],
  "a size that is too large": [
    makeZip([MAIN, { name: "a", content: "abcdef", bytes: 7 }]),
    /unpacks to less than its declared size/,
  ],
  "a wrong checksum": [
    makeZip([MAIN, { name: "a", content: "abcdef", crc32: 1 }]),
    /`a` is damaged: its checksum does not match/,
  ],
  "a stored file with a wrong checksum": [
    makeZip([MAIN, { name: "a", content: "abcdef", method: 0, crc32: 1 }]),
    /checksum does not match/,
  ],
  "content that cannot be unpacked": [
    makeZip([MAIN, { name: "a", content: "abcdef", packed: Buffer.alloc(20, 0xff) }]),
    /bytes cannot be unpacked/,
  ],
  "content that ends too early": [
    makeZip([MAIN, { name: "a", content: noise, packed: deflateRawSync(noise).subarray(0, -20) }]),
    /`a` is damaged: its bytes cannot be unpacked/,
  ],
  "bytes behind the packed content": [
    makeZip([
      MAIN,
      { name: "a", content: "abc", packed: Buffer.concat([deflateRawSync("abc"), Buffer.alloc(99)]) },
    ]),
    /`a` has extra bytes after its end/,
  ],
  "content of no bytes that should be some": [
    makeZip([MAIN, { name: "a", content: "abc", packed: Buffer.alloc(0) }]),
    /less than its declared size/,
  ],

  "a bomb": [makeZip([MAIN, { name: "a", content: zeros }]), /`a` unpacks to more than 100 times its size/],
  "a bomb whose size lies": [
    makeZip([MAIN, { name: "a", content: zeros, bytes: 1000 }]),
    /`a` unpacks to more than its declared size/,
  ],
  "too large a file": [
    makeZip([MAIN, { name: "a", content: "x".repeat(101) }]),
    /`a` is larger than 100 bytes/,
    { limits: { maxFileBytes: 100 } },
  ],
  "too much together": [
    makeZip([MAIN, { name: "a", content: "abcdef" }, { name: "b", content: "abcdef" }]),
    /The zip unpacks to more than 30 bytes/,
    { limits: { maxTotalBytes: 30 } },
  ],
  "5 GiB by what it says": [
    makeZip([MAIN, { name: "a", bytes: 0xffffffff, extra: extraField(1, bytes("", [[5 * 1024 ** 3, 8]])) }]),
    /`a` is larger than 4294967296 bytes/,
  ],
  "a bomb in many files, each too small to be one": [
    makeZip([MAIN, ...many(100, { content: Buffer.alloc(1024 ** 2) })]),
    /^The zip unpacks to more than 100 times its size\.$/,
  ],
  "a bomb in many files, with an honest file last": [
    makeZip([
      MAIN,
      ...many(30, { content: Buffer.alloc(1000) }),
      { name: "noise", content: noise.subarray(0, 100) },
    ]),
    /^The zip unpacks to more than 20 times its size\.$/,
    { limits: { maxRatio: 20, ratioFreeTotalBytes: 10_000 } },
  ],
  "too many entries": [
    makeZip([MAIN, { name: "a" }, { name: "b" }]),
    /The zip contains 3 entries, more than 2/,
    { limits: { maxFiles: 2 } },
  ],
  "too many folders": [
    makeZip([MAIN, { name: "a/b/c/d/e" }]),
    /The zip contains more than 4 files and folders/,
    { limits: { maxFiles: 4 } },
  ],
};

for (const [title, [zip, problem, options]] of Object.entries(CASES)) {
  verifies(["deploy.bundle", "hardening.archives"], `${title}: refused, and nothing is left`, async () => {
    const problems = await refusal(zip, options);
    expect(problems.join("\n")).toMatch(problem);
    expect(problems.every((line) => /^[^\n]+\.$/.test(line))).toBe(true);
  });
}

verifies(
  "hardening.archives",
  "what packs well is taken while it is small or among what does not",
  async () => {
    const small = many(60, { content: Buffer.alloc(1024 ** 2) });
    const padded = [
      ...many(70, { content: Buffer.alloc(1024 ** 2) }),
      { name: "noise", content: randomBytes(700_000) },
    ];
    for (const items of [small, padded]) {
      const { files } = await unpacked(makeZip([MAIN, ...items]));
      expect(files).toBe(items.length + 1);
    }
  },
);

test("faults found in the bytes are told together too", async () => {
  const bad = (name: string): ZipItem => ({ name, content: name, crc32: 7 });
  const problems = await refusal(makeZip([MAIN, bad("a"), bad("b"), { name: "c" }, bad("d")]));
  expect(problems.toSorted()).toEqual(
    ["a", "b", "d"].map((name) => `\`${name}\` is damaged: its checksum does not match.`),
  );
});
