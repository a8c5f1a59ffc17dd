import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { MAIN, refusal, type RefusedZips } from "../../../support/refused-zip.ts";
import { bytes, extraField, makeZip } from "../../../support/zip-maker.ts";
import { verifies } from "../../../verifies.ts";

const ELSEWHERE = path.join(tmpdir(), `millrace-nothing-${process.pid}`);
const named = (name: string | Buffer): Buffer => makeZip([MAIN, { name, content: "x" }]);

const CASES: RefusedZips = {
  "a name that leads out": [named("../x"), /^`\.\.\/x` contains a name of only dots/],
  "a name that leads out at its end": [named("a/../../../x"), /contains a name of only dots/],
  "an absolute name": [named(ELSEWHERE), /is absolute/],
  "a drive letter": [named("C:/x"), /drive letter/],
  backslashes: [named("..\\..\\x"), /backslash/],
  "a name with a NUL": [named("main.py\0.txt"), /control character/],
  "a name with a newline": [named("a\nb"), /`a\\u\{a\}b` contains a control character/],
  "a name of 256 bytes": [named("x".repeat(256)), /longer than 255 bytes/],
  "a path of 4,096 bytes": [named("x/".repeat(2048)), /longer than 1024 bytes/],
  "200 levels": [named("d/".repeat(200)), /more than 32 levels/],
  "an empty name": [named(""), /^`` is empty/],
  "a name in another code page": [named(Buffer.from([0x62, 0x81])), /is not UTF-8/],
  "a second name that leads out": [
    makeZip([
      MAIN,
      {
        name: "fine",
        extra: extraField(
          0x7075,
          Buffer.concat([
            bytes("", [
              [1, 1],
              [crc32("fine"), 4],
            ]),
            Buffer.from("../x"),
          ]),
        ),
      },
    ]),
    /`\.\.\/x` contains a name of only dots/,
  ],

  "a symbolic link": [
    makeZip([MAIN, { name: "link", content: "/etc", mode: 0o120777 }]),
    /^`link` is a symbolic link/,
  ],
  "a file through a link": [
    makeZip([MAIN, { name: "l", content: "/tmp", mode: 0o120777 }, { name: "l/x", content: "x" }]),
    /`l` is both a file and a folder/,
  ],
  "a link made on a Mac": [makeZip([MAIN, { name: "l", mode: 0o120777, host: 19 }]), /symbolic link/],
  "a named pipe": [makeZip([MAIN, { name: "p", mode: 0o010644 }]), /named pipe/],
  "a character device": [makeZip([MAIN, { name: "d", mode: 0o020644 }]), /is a device/],
  "a block device": [makeZip([MAIN, { name: "d", mode: 0o060644 }]), /is a device/],
  "a socket": [makeZip([MAIN, { name: "s", mode: 0o140644 }]), /is a socket/],
  "an unknown kind": [makeZip([MAIN, { name: "u", mode: 0o150644 }]), /unknown kind/],
  "a folder named as a file": [makeZip([MAIN, { name: "f", mode: 0o040755 }]), /is a folder, but/],
  "a file named as a folder": [makeZip([MAIN, { name: "f/", mode: 0o100644 }]), /is a file, but/],
  "a folder with content": [makeZip([MAIN, { name: "f/", content: "x" }]), /but has content/],

  "an encrypted entry": [makeZip([MAIN, { name: "e", content: "x", flags: 0x801 }]), /`e` is encrypted/],
  "a strongly encrypted entry": [makeZip([MAIN, { name: "e", flags: 0x841 }]), /The zip is encrypted/],
  "a masked directory": [makeZip([MAIN, { name: "e", flags: 0x2800 }]), /is encrypted/],
  "patched data": [makeZip([MAIN, { name: "e", flags: 0x820 }]), /is a patch/],
  bzip2: [makeZip([MAIN, { name: "b", content: "x", method: 12 }]), /method 12 \(bzip2\); use deflate/],
  "an unknown method": [makeZip([MAIN, { name: "b", content: "x", method: 77 }]), /method 77; use deflate/],

  "a name twice": [makeZip([MAIN, { name: "a" }, { name: "a" }]), /^`a` is in the zip twice\.$/],
  "main.py twice": [makeZip([MAIN, MAIN]), /`main\.py` is in the zip twice/],
  "a generated name twice, but not at the root": [
    makeZip([MAIN, { name: "d/requirements.txt" }, { name: "d/requirements.txt" }]),
    /is in the zip twice/,
  ],
  "a folder twice": [makeZip([MAIN, { name: "d/" }, { name: "d/" }]), /`d` is in the zip twice/],
  "a file that is a folder too": [
    makeZip([MAIN, { name: "d/x" }, { name: "d" }]),
    /`d` is both a file and a folder/,
  ],
  "main.py as a folder too": [makeZip([MAIN, { name: "main.py/x" }]), /both a file and a folder/],
  "names that differ in case": [
    makeZip([MAIN, { name: "MAIN.py" }]),
    /`MAIN\.py` and `main\.py` differ only in case/,
  ],
  "folders that differ in case": [
    makeZip([MAIN, { name: "Data/a" }, { name: "data/b" }]),
    /`data` and `Data` differ only in case/,
  ],
  "a generated name in another case": [
    makeZip([MAIN, { name: "requirements.txt" }, { name: "Requirements.txt" }]),
    /differ only in case or Unicode form/,
  ],
  "names that differ in composition": [
    makeZip([MAIN, { name: "\u00fc" }, { name: "u\u0308" }]),
    /differ only in case or Unicode form/,
  ],

  "no main.py": [makeZip([{ name: "app.py" }]), /^The zip has no main\.py at its root\.$/],
  "main.py as a folder": [makeZip([{ name: "main.py/" }]), /no main\.py at its root/],
  "main.py in another case": [makeZip([{ name: "Main.py" }]), /no main\.py at its root/],
  "a folder around everything": [
    makeZip([{ name: "hello/" }, { ...MAIN, name: "hello/main.py" }, { name: "__MACOSX/hello/._main.py" }]),
    /^main\.py is in `hello\/`: zip the folder's contents, not the folder\.$/,
  ],
  "a folder around main.py, and more": [
    makeZip([{ ...MAIN, name: "hello/main.py" }, { name: "readme.md" }]),
    /^The zip has no main\.py at its root\.$/,
  ],
};

for (const [title, [zip, problem, options]] of Object.entries(CASES)) {
  verifies("deploy.bundle", `${title}: refused, and nothing is left`, async () => {
    const problems = await refusal(zip, options);
    expect(problems.join("\n")).toMatch(problem);
    expect(problems.every((line) => /^[^\n]+\.$/.test(line))).toBe(true);
  });
}

verifies("deploy.bundle", "every problem is told at once", async () => {
  const zip = makeZip([
    { name: "../x", mode: 0o120777 },
    { name: "a", flags: 0x801 },
    { name: "a" },
    { name: "b", local: { name: "c" } },
  ]);
  expect(await refusal(zip)).toEqual([
    "`../x` contains a name of only dots or spaces, which could lead out of its folder.",
    "`../x` is a symbolic link; only files and folders are allowed.",
    "`a` is encrypted.",
    "`a` is in the zip twice.",
    "`b` has a header that contradicts the zip's directory: name.",
    "The zip has no main.py at its root.",
  ]);
});

test("an absolute name is not followed", async () => {
  await refusal(named(ELSEWHERE));
  expect(existsSync(ELSEWHERE)).toBe(false);
});

test("20 problems are shown and the others counted", async () => {
  const zip = makeZip([MAIN, ...Array.from({ length: 50 }, (_, index) => ({ name: `/${index}` }))]);
  const problems = await refusal(zip);
  expect(problems).toHaveLength(21);
  expect(problems.at(-1)).toBe("There are 30 more problems.");
});
