import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { crc32 } from "node:zlib";
import { afterAll, expect, test } from "vitest";
import { extractBundle } from "../../../../src/apps/bundles/extract.ts";
import { BundleError } from "../../../../src/apps/bundles/zip-directory.ts";
import { MAIN } from "../../../support/refused-zip.ts";
import { bytes, extraField, makeZip } from "../../../support/zip-maker.ts";
import { verifies } from "../../../verifies.ts";

const root = mkdtempSync(path.join(tmpdir(), "millrace-extract-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let last = 0;

/** A zip on the disk, and where it is to be unpacked. */
function stored(zip: Buffer): { zip: string; into: string; place: string } {
  const place = path.join(root, String((last += 1)));
  mkdirSync(place);
  writeFileSync(path.join(place, "in.zip"), zip);
  return { zip: path.join(place, "in.zip"), into: path.join(place, "deep", "bundle"), place };
}

/** Every file below a folder with its text; folders end with a slash. */
function contents(folder: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const name = path.relative(folder, path.join(entry.parentPath, entry.name));
    if (entry.isDirectory()) found[`${name}/`] = "";
    else found[name] = readFileSync(path.join(folder, name), "utf8");
  }
  return found;
}

async function unpacked(zip: Buffer): Promise<Record<string, string>> {
  const { zip: file, into } = stored(zip);
  await extractBundle(file, into);
  return contents(into);
}

verifies("deploy.bundle", "a zip becomes a folder of the same files", async () => {
  const items = [
    MAIN,
    { name: "pkg/deep/a.py", content: "a" },
    { name: "empty.txt" },
    { name: "nothing/" },
    { name: "-rf", content: "harmless", method: 0 },
    { name: "bücher/日本語.txt", content: "é" },
  ];
  const { zip, into, place } = stored(makeZip(items));
  expect(await extractBundle(zip, into)).toEqual({ noMain: null, files: 5, bytes: 24 + 1 + 8 + 2 });
  expect(contents(into)).toEqual({
    "main.py": "def run():\n    return 1\n",
    "pkg/": "",
    "pkg/deep/": "",
    "pkg/deep/a.py": "a",
    "empty.txt": "",
    "nothing/": "",
    "-rf": "harmless",
    "bücher/": "",
    "bücher/日本語.txt": "é",
  });
  expect(readdirSync(path.join(place, "deep"))).toEqual(["bundle"]);
});

verifies("deploy.bundle", "modes are masked, and the owner's right to execute is kept", async () => {
  const mask = process.umask(0o077);
  try {
    const { zip, into } = stored(
      makeZip([
        { ...MAIN, mode: 0o100666 },
        { name: "run.sh", mode: 0o106755 },
        { name: "others.sh", mode: 0o100655 },
        { name: "dos.exe", mode: 0o100755, host: 0 },
        { name: "open/", mode: 0o041777 },
        { name: "implied/x", mode: 0 },
      ]),
    );
    await extractBundle(zip, into);
    const modes = ["", "main.py", "run.sh", "others.sh", "dos.exe", "open", "implied", "implied/x"].map(
      (name) => (statSync(path.join(into, name)).mode & 0o7777).toString(8),
    );
    expect(modes).toEqual(["755", "644", "755", "644", "644", "755", "755", "644"]);
  } finally {
    process.umask(mask);
  }
});

verifies(["deploy.bundle", "deploy.generated-files"], "the first of two generated files stays", async () => {
  const names = [
    "requirements.txt",
    "pkglist.txt",
    "conda_pkglist.txt",
    "pre_build_commands.sh",
    "shell_commands.sh",
  ];
  const twice = ["first", "second"].flatMap((content) => names.map((name) => ({ name, content })));
  const found = await unpacked(makeZip([...twice, MAIN]));
  expect(names.map((name) => found[name])).toEqual(names.map(() => "first"));
});

test("a generated file that loses does not count, and is judged all the same", async () => {
  const pair = [
    { name: "requirements.txt", content: "a" },
    { name: "requirements.txt", content: "b".repeat(100) },
  ];
  const { zip, into } = stored(makeZip([MAIN, ...pair]));
  expect(await extractBundle(zip, into, { limits: { maxTotalBytes: 30 } })).toEqual({
    noMain: null,
    files: 2,
    bytes: 25,
  });
  const bad = stored(
    makeZip([MAIN, { name: "requirements.txt" }, { name: "requirements.txt", mode: 0o120777 }]),
  );
  await expect(extractBundle(bad.zip, bad.into)).rejects.toThrow(/symbolic link/);
});

test.each<[string, Buffer]>([
  ["with a comment", makeZip([MAIN], { comment: Buffer.from("made by hand") })],
  ["behind a program", makeZip([MAIN], { before: Buffer.from(`#!/bin/sh\n${"exit\n".repeat(30)}`) })],
  [
    "with room between its parts",
    makeZip([MAIN], { between: Buffer.alloc(500), behindDirectory: Buffer.alloc(500) }),
  ],
  [
    "with a name in a field of its own",
    makeZip([{ ...MAIN, name: "?", extra: unicodeName("?", "main.py") }]),
  ],
  ["with such a field for another name", makeZip([{ ...MAIN, extra: unicodeName("?", "../x") }])],
  ["with UTF-8 names that are not said to be", makeZip([{ ...MAIN, flags: 0 }])],
  [
    "whose header leaves sizes for later",
    makeZip([{ ...MAIN, local: { flags: 8, bytes: 0, packedBytes: 0, crc32: 0 } }]),
  ],
])("a zip %s is taken", async (_, zip) => {
  expect(await unpacked(zip)).toEqual({ "main.py": "def run():\n    return 1\n" });
});

test("a zip in a zip is a file", async () => {
  const inner = makeZip([{ name: "main.py", content: "other" }]);
  const { zip, into } = stored(makeZip([MAIN, { name: "inner.zip", content: inner, method: 0 }]));
  await extractBundle(zip, into);
  expect(readFileSync(path.join(into, "inner.zip"))).toEqual(inner);
});

test("main.py may be missing where the runtime needs none", async () => {
  const { zip, into } = stored(makeZip([{ name: "Dockerfile", content: "FROM x" }]));
  const { noMain } = await extractBundle(zip, into, { needsMain: false });
  expect(noMain).toBe("The zip has no main.py at its root.");
  expect(contents(into)).toEqual({ Dockerfile: "FROM x" });
});

const many = makeZip([
  MAIN,
  ...Array.from({ length: 400 }, (_, index) => ({
    name: `d${index % 7}/${index}`,
    content: "x".repeat(5_000),
  })),
]);

test("an abort while files are written leaves nothing", async () => {
  const { zip, into, place } = stored(many);
  const stopped = new AbortController();
  const done = extractBundle(zip, into, { signal: stopped.signal });
  const watch = setInterval(() => {
    if (!existsSync(path.join(`${into}.part`, "main.py"))) return;
    clearInterval(watch);
    stopped.abort(new Error("cancelled by a person"));
  });
  try {
    await expect(done).rejects.toThrow("cancelled by a person");
  } finally {
    clearInterval(watch);
  }
  expect(readdirSync(path.join(place, "deep"))).toEqual([]);
});

test("an abort before it begins leaves nothing", async () => {
  const { zip, into, place } = stored(many);
  await expect(extractBundle(zip, into, { signal: AbortSignal.abort() })).rejects.toThrow(/abort/);
  expect(readdirSync(place)).toEqual(["in.zip"]);
});

test("what a killed service left aside is cleared away first", async () => {
  const { zip, into } = stored(makeZip([MAIN]));
  mkdirSync(`${into}.part/old`, { recursive: true });
  await extractBundle(zip, into);
  expect(Object.keys(contents(into))).toEqual(["main.py"]);
  expect(existsSync(`${into}.part`)).toBe(false);
});

test("a folder that is there already stays as it is", async () => {
  const { zip, into } = stored(makeZip([MAIN]));
  mkdirSync(into, { recursive: true });
  const refusal = extractBundle(zip, into);
  await expect(refusal).rejects.toThrow(/exists already/);
  await expect(refusal).rejects.not.toBeInstanceOf(BundleError);
  expect(readdirSync(into)).toEqual([]);
});

function unicodeName(of: string, name: string): Buffer {
  const head = bytes("", [
    [1, 1],
    [crc32(of), 4],
  ]);
  return extraField(0x7075, Buffer.concat([head, Buffer.from(name)]));
}
