import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { copyFolder } from "../../../../src/apps/bundles/place-folder.ts";
import { hashFolder, listBundleFiles, readFilePatterns } from "../../../../src/apps/bundles/list-files.ts";

/** What an app without `include` and `exclude` has. */
const DEFAULT_PATTERNS = { include: ["*"], exclude: [".*"] };

const root = mkdtempSync(path.join(tmpdir(), "millrace-list-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const NAMES = [
  "main.py",
  "millrace.toml",
  "cerebrium.toml",
  ".env",
  ".git/config",
  "pkg/a.py",
  "pkg/.hidden",
  "pkg/deep/b.py",
  "pkg/__pycache__/a.cpython-311.pyc",
  "__pycache__/main.cpython-311.pyc",
  "data/x.csv",
  "data/old/y.csv",
  "data/millrace.toml",
];

let last = 0;
function folder(names: readonly string[] = NAMES): string {
  const dir = path.join(root, String((last += 1)));
  for (const name of names) {
    mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
    writeFileSync(path.join(dir, name), name);
  }
  return dir;
}

async function listed(
  patterns: { include?: string[]; exclude?: string[] },
  dir = folder(),
): Promise<string[]> {
  return (await listBundleFiles(dir, { ...DEFAULT_PATTERNS, ...patterns })).map(({ name }) => name);
}

test("by default everything belongs to a bundle but hidden files and what Python leaves behind", async () => {
  const dir = folder();
  expect(await listBundleFiles(dir, DEFAULT_PATTERNS)).toEqual(
    [
      "cerebrium.toml",
      "data/millrace.toml",
      "data/old/y.csv",
      "data/x.csv",
      "main.py",
      "millrace.toml",
      "pkg/a.py",
      "pkg/deep/b.py",
    ].map((name) => ({ name, path: path.join(dir, name), bytes: name.length })),
  );
});

test("the configuration is always there, what it includes and excludes is not", async () => {
  expect(await listed({ include: ["main.py"] })).toEqual(["cerebrium.toml", "main.py", "millrace.toml"]);
  expect(await listed({ include: [] })).toEqual(["cerebrium.toml", "millrace.toml"]);
  expect(await listed({ exclude: ["*"] })).toEqual(["cerebrium.toml", "millrace.toml"]);
  expect(await listed({ include: ["./*", "main.py", "cerebrium.toml"], exclude: [".*", "data"] })).toEqual([
    "cerebrium.toml",
    "main.py",
    "millrace.toml",
    "pkg/a.py",
    "pkg/deep/b.py",
  ]);
});

test("hidden files come in when they are not excluded, bytecode never", async () => {
  const all = await listed({ exclude: [] });
  expect(all).toEqual(expect.arrayContaining([".env", ".git/config", "pkg/.hidden"]));
  expect(all.filter((name) => name.includes("__pycache__"))).toEqual([]);
});

test.each<[string, string[], string[]]>([
  ["*", ["a", "a/b", ".x"], []],
  ["*.csv", ["x.csv", "d/x.csv", "a.csv/b"], ["x.csv.gz", "csv"]],
  [".*", [".env", "a/.env", ".git/a/b"], ["a.b", "a/b.c"]],
  ["data", ["data", "data/x", "a/data/x"], ["data2", "mydata/x"]],
  ["data/", ["data", "data/x/y"], ["database"]],
  ["./data", ["data/x"], ["data2"]],
  ["/data", ["data/x"], ["a/data/x"]],
  ["data/*", ["data/x", "data/x/y"], ["data", "a/data/x"]],
  ["src/*.py", ["src/a.py", "src/a/b.py"], ["src/a.pyc", "a.py"]],
  ["**/*.py", ["a.py", "x/y/a.py"], ["a.txt"]],
  ["a/**/b", ["a/b", "a/x/b", "a/x/y/b/c"], ["a/xb", "b"]],
  ["a?c", ["abc", "x/a-c"], ["ac", "a/c"]],
  ["[ab].txt", ["a.txt", "x/b.txt"], ["c.txt"]],
  ["[!ab].txt", ["c.txt"], ["a.txt"]],
  ["[0-9]*", ["1x"], ["x1"]],
  ["[z-a]", [], ["z", "a", "[z-a]"]],
  ["a.b+(c)$^|{}\\", ["a.b+(c)$^|{}\\"], ["axb+(c)$^|{}\\"]],
  ["[", ["["], ["a"]],
  ["", [], ["a", ""]],
  [" x ", ["x"], [" x "]],
  ["👩", ["👩"], ["x"]],
  ["?", ["👩", "x"], ["xy"]],
])("the pattern %j", (pattern, takes, leaves) => {
  const matches = readFilePatterns([pattern]);
  expect(takes.filter((name) => !matches(name))).toEqual([]);
  expect(leaves.filter(matches)).toEqual([]);
});

test("links are followed, but not in a circle", async () => {
  const dir = folder(["main.py", "pkg/a.py"]);
  const elsewhere = folder(["shared.py"]);
  symlinkSync(path.join(dir, "main.py"), path.join(dir, "link.py"));
  symlinkSync(elsewhere, path.join(dir, "shared"));
  symlinkSync("..", path.join(dir, "pkg", "up"));
  symlinkSync(".", path.join(dir, "self"));
  symlinkSync("nowhere", path.join(dir, "broken"));
  expect(await listed({}, dir)).toEqual(["link.py", "main.py", "pkg/a.py", "shared/shared.py"]);
});

test("a bundle's hash changes with names, contents and the right to execute, and with nothing else", async () => {
  const files = ["main.py", "pkg/a.py"];
  const dir = folder(files);
  const hash = await hashFolder(dir, DEFAULT_PATTERNS);
  expect(hash).toMatch(/^[0-9a-f]{64}$/);
  const same = folder(files.toReversed());
  writeFileSync(path.join(same, ".env"), "secret");
  mkdirSync(path.join(same, "__pycache__"));
  writeFileSync(path.join(same, "__pycache__", "x.pyc"), "");
  expect(await hashFolder(same, DEFAULT_PATTERNS)).toBe(hash);

  const others = [folder(["main.py", "pkg/b.py"]), folder(files), folder(files)];
  writeFileSync(path.join(others[1] ?? "", "main.py"), "changed");
  chmodSync(path.join(others[2] ?? "", "main.py"), 0o755);
  const hashes = await Promise.all(others.map(async (other) => await hashFolder(other, DEFAULT_PATTERNS)));
  expect(new Set([hash, ...hashes]).size).toBe(4);
});

test("a copied folder has the bundle's files, and no links", async () => {
  const dir = folder();
  symlinkSync(path.join(dir, "main.py"), path.join(dir, "link.py"));
  chmodSync(path.join(dir, "main.py"), 0o700);
  const to = path.join(root, "copies", "new", "bundle");
  await copyFolder(dir, to, DEFAULT_PATTERNS);
  expect(await hashFolder(to, DEFAULT_PATTERNS)).toBe(await hashFolder(dir, DEFAULT_PATTERNS));
  expect(statSync(path.join(to, "main.py")).mode & 0o7777).toBe(0o755);
  expect(statSync(path.join(to, "pkg")).mode & 0o7777).toBe(0o755);
  expect(readFileSync(path.join(to, "link.py"), "utf8")).toBe("main.py");
  expect(readdirSync(path.dirname(to))).toEqual(["bundle"]);
  expect(readdirSync(to).toSorted()).toEqual(
    ["cerebrium.toml", "data", "link.py", "main.py", "millrace.toml", "pkg"].toSorted(),
  );
});

test("a copy that fails leaves nothing", async () => {
  const dir = folder(["main.py"]);
  const to = path.join(root, "failed", "bundle");
  // Its name fits where it is, but no longer with what is put behind it while it is made.
  const tooLong = path.join(root, "failed", "x".repeat(253));
  await expect(copyFolder(dir, tooLong, DEFAULT_PATTERNS)).rejects.toThrow(/ENAMETOOLONG/);
  expect(readdirSync(path.dirname(to))).toEqual([]);
  expect(existsSync(to)).toBe(false);
});
