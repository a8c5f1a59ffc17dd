import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Seal, loadMasterKey } from "../../../src/kit/seal.ts";
import { verifies } from "../../verifies.ts";

const SEAL = new URL("../../../src/kit/seal.ts", import.meta.url).href;
const SECRET = Buffer.from("what nobody else may read");

function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), "millrace-seal-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

test("what is sealed opens again in its place, and shows nothing of itself", () => {
  const seal = new Seal(randomBytes(32));
  const sealed = seal.close(SECRET, "keys/1");
  expect(sealed.includes(SECRET)).toBe(false);
  expect(seal.open(sealed, "keys/1")).toEqual(SECRET);
});

test("two seals of one secret have nothing in common", () => {
  const seal = new Seal(randomBytes(32));
  const [one, two] = [seal.close(SECRET, "a"), seal.close(SECRET, "a")];
  expect(one.subarray(0, 28)).not.toEqual(two.subarray(0, 28));
  expect(one.subarray(44)).not.toEqual(two.subarray(44));
});

test("it does not open in another place, with another key, or with any bit changed", () => {
  const seal = new Seal(randomBytes(32));
  const sealed = seal.close(SECRET, "keys/1");
  expect(() => seal.open(sealed, "keys/2")).toThrow("unable to authenticate");
  expect(() => new Seal(randomBytes(32)).open(sealed, "keys/1")).toThrow("unable to authenticate");
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at]! ^= 1;
    expect(() => seal.open(changed, "keys/1")).toThrow("unable to authenticate");
  }
});

test("the master key is made once, for its owner alone", () => {
  const file = join(scratch(), "master.key");
  const key = loadMasterKey(file);
  expect(key).toHaveLength(32);
  expect(loadMasterKey(file)).toEqual(key);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readFileSync(file, "utf8").trim()).toBe(key.toString("base64"));
});

verifies(
  "start.key-whole",
  "a start that cannot write the master key leaves none, and the next one makes it",
  () => {
    const file = join(scratch(), "master.key");
    const code = `import(${JSON.stringify(SEAL)}).then(({ loadMasterKey }) => loadMasterKey(${JSON.stringify(file)}))`;
    // A process that may write no file at all finds out as with a full disk.
    const limited = [
      "-c",
      'ulimit -f 0; exec "$0" "$@"',
      process.execPath,
      "--input-type=module",
      "-e",
      code,
    ];
    const { status } = spawnSync("sh", limited);
    expect(status).not.toBe(0);
    expect(existsSync(file)).toBe(false);
    expect(loadMasterKey(file)).toHaveLength(32);
  },
);

test("a link that leads nowhere is refused, never replaced", () => {
  const file = join(scratch(), "master.key");
  symlinkSync("elsewhere", file);
  expect(() => loadMasterKey(file)).toThrow("ENOENT");
  expect(readlinkSync(file)).toBe("elsewhere");
});

test("a file that holds no key is refused, never replaced", () => {
  const file = join(scratch(), "master.key");
  writeFileSync(file, "not a key\n");
  expect(() => loadMasterKey(file)).toThrow("restore it from a backup");
  expect(readFileSync(file, "utf8")).toBe("not a key\n");
});

test("a master key of another length is refused", () => {
  expect(() => new Seal(randomBytes(16))).toThrow("32 bytes");
});
