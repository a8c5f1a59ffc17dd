import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { extractBundle } from "../../../../src/apps/bundles/extract.ts";
import { BundleError } from "../../../../src/apps/bundles/zip-directory.ts";
import { MAIN, refusal, type RefusedZips } from "../../../support/refused-zip.ts";
import { bytes, extraField, makeZip } from "../../../support/zip-maker.ts";
import { verifies } from "../../../verifies.ts";

const root = mkdtempSync(path.join(tmpdir(), "millrace-layout-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const CASES: RefusedZips = {
  "no bytes": [Buffer.alloc(0), /^The upload is empty\.$/],
  text: [Buffer.from("print('no zip')\n".repeat(10)), /^The upload is not a zip\.$/],
  "a tar": [Buffer.alloc(10_240, "ustar"), /^The upload is not a zip\.$/],
  "a zip of nothing": [makeZip([]), /^The zip contains no files\.$/],
  "a zip without its end": [makeZip([MAIN]).subarray(0, -10), /^The zip is cut off/],
  "a zip cut in its content": [makeZip([MAIN]).subarray(0, 40), /^The zip is cut off/],
  "bytes behind the end": [makeZip([MAIN], { after: Buffer.from("more") }), /appended to it/],
  "a directory that is no directory": [makeZip([MAIN], { directoryStart: 3 }), /directory is damaged/],
  "a directory past the end": [makeZip([MAIN], { directoryStart: 0xfffffff0 }), /directory is damaged/],
  "more entries than there are": [makeZip([MAIN], { count: 2 }), /directory is damaged/],
  "fewer entries than there are": [makeZip([MAIN, { name: "b" }], { count: 1 }), /outside its directory/],
  "a part of several": [makeZip([MAIN], { disk: 1 }), /one of several parts/],

  "another name in the header": [
    makeZip([MAIN, { name: "a", local: { name: "b" } }]),
    /`a` has a header that contradicts the zip's directory: name/,
  ],
  "another method in the header": [
    makeZip([MAIN, { name: "a", local: { method: 0 } }]),
    /contradicts the zip's directory: method/,
  ],
  "an encrypted header": [makeZip([MAIN, { name: "a", local: { flags: 0x801 } }]), /contradicts/],
  "other sizes in the header": [
    makeZip([MAIN, { name: "a", content: "abc", local: { bytes: 4, packedBytes: 9 } }]),
    /contradicts the zip's directory: size, packed size/,
  ],
  "other sizes in the header of a stream": [
    makeZip([MAIN, { name: "a", content: "abc", flags: 0x808, local: { bytes: 4, crc32: 0 } }]),
    /contradicts the zip's directory: size\./,
  ],
  "other large sizes in the header": [
    makeZip([
      MAIN,
      {
        name: "a",
        content: "abc",
        local: {
          bytes: 0xffffffff,
          packedBytes: 0xffffffff,
          extra: extraField(
            1,
            bytes("", [
              [2n ** 63n, 8],
              [5, 8],
            ]),
          ),
        },
      },
    ]),
    /contradicts the zip's directory: size\./,
  ],
  "another checksum in the header": [
    makeZip([MAIN, { name: "a", content: "abc", local: { crc32: 1 } }]),
    /contradicts the zip's directory: checksum/,
  ],
  "a header that is none": [
    makeZip([MAIN, { name: "a", local: { signature: "PK\u0003\u0005" } }]),
    /`a` is not where the zip's directory says/,
  ],
  "an extra field longer than its header": [
    makeZip([MAIN, { name: "a", local: { extra: bytes("", [[0xffff0001, 4]]) } }]),
    /`a` is not where/,
  ],
  "an entry past the end": [makeZip([MAIN, { name: "a", start: 1e9, isListedOnly: true }]), /is not where/],
  "an entry at an offset that no file has": [
    makeZip([
      MAIN,
      { name: "a", start: 0xffffffff, extra: extraField(1, bytes("", [[2n ** 63n, 8]])), isListedOnly: true },
    ]),
    /is not where/,
  ],
  "a large end record at an offset that no file has": [
    makeZip([MAIN], { behindDirectory: largeEnd({ at: 2n ** 63n }) }),
    /cut off/,
  ],
  "a large end record that is none": [makeZip([MAIN], { behindDirectory: largeEnd({ at: 0 }) }), /cut off/],
  "content past the end": [
    makeZip([MAIN, { name: "a", content: "x", method: 0, packedBytes: 1e9, bytes: 1e9 }]),
    /`a` is not where/,
  ],

  "two entries of the same bytes": [
    makeZip([{ ...MAIN }, { ...MAIN, name: "main.py", start: 0, isListedOnly: true }]),
    /`main\.py` overlaps `main\.py`/,
  ],
  "an entry in another's content": [overlapping(), /`inner` overlaps `outer`/],
  "an entry in the directory": [inDirectory(), /overlaps the zip's directory/],
  "a second directory in front": [
    makeZip([MAIN], { before: makeZip([{ name: "main.py", content: "evil" }]) }),
    /directory entries outside its directory/,
  ],
  "a second directory in between": [
    makeZip([MAIN], { between: Buffer.concat([Buffer.alloc(5), directoryOf("other")]) }),
    /directory entries outside its directory/,
  ],
  "a second directory behind": [
    makeZip([MAIN], { behindDirectory: directoryOf("other") }),
    /directory entries outside its directory/,
  ],
  "a whole zip in the comment": [makeZip([{ name: "a" }], { comment: shifted() }), /outside its directory/],
};

/** The end record of a large zip, in front of the usual one, and what says where it is. */
function largeEnd({ entries = 1, size = 0, start = 0, disk = 0, at = 0 as number | bigint }): Buffer {
  const end = bytes("PK\u0006\u0006", [
    [44, 8],
    [45, 2],
    [45, 2],
    [disk, 4],
    [disk, 4],
    [entries, 8],
    [entries, 8],
    [size, 8],
    [start, 8],
  ]);
  const locator = bytes("PK\u0006\u0007", [
    [0, 4],
    [at, 8],
    [1, 4],
  ]);
  return Buffer.concat([end, locator]);
}

/** An entry whose stored content is another entry, header and all. */
function overlapping(): Buffer {
  const inner = makeZip([{ name: "inner", content: "x", method: 0 }]).subarray(0, 30 + 5 + 1);
  const outerHead = 30 + 5;
  return makeZip([
    { name: "outer", content: inner, method: 0 },
    { name: "inner", content: "x", method: 0, start: outerHead, isListedOnly: true },
    MAIN,
  ]);
}

/** An entry whose content goes on into the directory. */
function inDirectory(): Buffer {
  const item = { name: "main.py", content: "x", method: 0 } as const;
  return makeZip([{ ...item, packedBytes: 40, bytes: 40 }]);
}

function directoryOf(name: string): Buffer {
  const zip = makeZip([{ name }]);
  return zip.subarray(30 + name.length + 2, -22);
}

/** A zip that is right where it stands: behind another one's end record. */
function shifted(): Buffer {
  const around = makeZip([{ name: "a" }]).length;
  return makeZip([MAIN], { before: Buffer.alloc(around) }).subarray(around);
}

for (const [title, [zip, problem, options]] of Object.entries(CASES)) {
  verifies("deploy.bundle", `${title}: refused, and nothing is left`, async () => {
    const problems = await refusal(zip, options);
    expect(problems.join("\n")).toMatch(problem);
    expect(problems.every((line) => /^[^\n]+\.$/.test(line))).toBe(true);
  });
}

test("a zip damaged at any byte is refused, or unpacked right", async () => {
  const whole = makeZip([MAIN, { name: "pkg/a.py", content: "x = 1\n".repeat(20) }]);
  const right = await outcome(whole, "whole");
  expect(right).toEqual(["main.py", MAIN.content, "pkg", "pkg/a.py", "x = 1\n".repeat(20)]);
  for (let at = 0; at < whole.length; at += 1) {
    const zip = Buffer.from(whole);
    zip[at] = (zip[at] ?? 0) ^ 0xff;
    expect([right, "refused"]).toContainEqual(await outcome(zip, `flip-${at}`));
  }
});

/** What is there after a zip: every name and text, or "refused" and nothing. */
async function outcome(zip: Buffer, name: string): Promise<unknown> {
  const place = path.join(root, name);
  const bundle = path.join(place, "bundle");
  mkdirSync(place);
  writeFileSync(path.join(place, "in.zip"), zip);
  try {
    await extractBundle(path.join(place, "in.zip"), bundle);
  } catch (error) {
    return error instanceof BundleError && readdirSync(place).length === 1 ? "refused" : error;
  }
  const found = readdirSync(bundle, { recursive: true, withFileTypes: true })
    .map((entry) => path.join(entry.parentPath, entry.name))
    .toSorted();
  return found.flatMap((file) => {
    const shown = path.relative(bundle, file);
    return statSync(file).isFile() ? [shown, readFileSync(file, "utf8")] : [shown];
  });
}
