import { createDecipheriv, createHmac, scryptSync } from "node:crypto";
import { readFileSync, readdirSync, statSync, watch, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Condition } from "../../../src/kit/concurrency.ts";
import { MILLRACE, installed, run, scratchDirectory } from "../../support/command-line.ts";
import { testDatabases } from "../../support/databases.ts";
import { KillableService } from "../../support/killable-service.ts";
import { Terminal } from "../../support/terminal.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const WORDS = "twelve blue herons at noon";
const BY_ENV = { MILLRACE_BACKUP_PASSPHRASE: WORDS };

/** Opens a sealed file by what docs/operations.md says of it, and with nothing of ours. */
function openByTheBook(sealed: Buffer, passphrase: string): Buffer {
  expect(sealed.toString("latin1", 0, 16)).toBe("millrace-sealed\u0001");
  const [bits = 0, r = 0, p = 0] = sealed.subarray(16, 19);
  const cost = { N: 2 ** bits, r, p, maxmem: 2 ** 30 };
  const keys = scryptSync(passphrase.normalize("NFKC"), sealed.subarray(24, 56), 64, cost);
  const check = createHmac("sha256", keys.subarray(32)).update(sealed.subarray(0, 56)).digest();
  expect(sealed.subarray(56, 88)).toEqual(check);
  const step = sealed.readUInt32BE(20) + 16;
  const parts: Buffer[] = [];
  for (let at = 88, number = 0; at < sealed.length; at += step, number++) {
    const chunk = sealed.subarray(at, at + step);
    const nonce = Buffer.alloc(12);
    nonce.writeUInt32BE(number, 7);
    nonce[11] = at + step >= sealed.length ? 1 : 0;
    const cipher = createDecipheriv("aes-256-gcm", keys.subarray(0, 32), nonce, { authTagLength: 16 });
    cipher.setAAD(sealed.subarray(0, 88)).setAuthTag(chunk.subarray(-16));
    parts.push(cipher.update(chunk.subarray(0, -16)), cipher.final());
  }
  return Buffer.concat(parts);
}

type Installation = { readonly dataDir: string; readonly key: string; readonly token: string };

let shared: Promise<Installation> | undefined;

/** One for all tests: they only read it. */
async function installation(): Promise<Installation> {
  return await (shared ??= newInstallation());
}

async function newInstallation(): Promise<Installation> {
  const { dataDir } = await databases.fresh("sqlite");
  const { token } = await installed(dataDir);
  return { dataDir, key: readFileSync(path.join(dataDir, "master.key"), "utf8").trim(), token };
}

let sealed: Promise<Buffer> | undefined;

/** An encrypted backup of it: one for all tests that only read it, for its key takes time to derive. */
async function sealedBytes(): Promise<Buffer> {
  return await (sealed ??= (async () => (await sealedFile()).bytes)());
}

async function sealedFile(folder = scratchDirectory()): Promise<{ bytes: Buffer; dataDir: string }> {
  const { dataDir } = await installation();
  // More than one chunk.
  writeFileSync(path.join(dataDir, "large"), Buffer.alloc(2_500_000, "x"));
  const file = path.join(folder, "saved");
  const args = ["backup", file, "--data-dir", dataDir, "--encrypt"];
  const { code, stderr } = await run(MILLRACE, args, { env: BY_ENV });
  expect([code, stderr]).toEqual([0, ""]);
  return { bytes: readFileSync(file), dataDir };
}

verifies("hardening.backup.told", "a plain backup tells what it holds, and how to keep it", async () => {
  const { dataDir, key, token } = await installation();
  const folder = scratchDirectory();
  const { code, stdout, stderr } = await run(MILLRACE, ["backup", `${folder}/plain`, "--data-dir", dataDir]);
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout).toMatch(/holds millrace\.db, master\.key, owner-token\.$/m);
  expect(stdout).toMatch(/not encrypted.*\n?.*keep it like a password, or use --encrypt/);
  const bytes = readFileSync(`${folder}/plain`);
  expect([bytes.includes(key), bytes.includes(token)]).toEqual([true, true]);
  const forgotten = await run(MILLRACE, ["backup", `${folder}/forgotten`, "--data-dir", dataDir, "--json"], {
    env: BY_ENV,
  });
  expect(forgotten.stderr).toContain("this backup is not encrypted");
  expect(JSON.parse(forgotten.stdout)).toMatchObject({
    encrypted: false,
    contains: ["millrace.db", "master.key", "owner-token"],
  });
});

verifies(
  "hardening.backup.sealed",
  "an encrypted backup shows nothing, is private, and opens with its passphrase alone",
  async () => {
    const database = await databases.fresh("sqlite");
    const service = await KillableService.deploy(database, { main: "def run(n):\n    return n + 1\n" });
    await service.start();
    const { dataDir } = database;
    const owner = await installed(dataDir);
    const file = path.join(scratchDirectory(), "saved");
    const { code, stdout } = await run(
      MILLRACE,
      ["backup", file, "--data-dir", dataDir, "--encrypt", "--json"],
      { env: BY_ENV },
    );
    await service.stop();
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { encrypted: true, left_out: [] }]);
    expect([(statSync(file).mode & 0o777).toString(8), readdirSync(path.dirname(file))]).toEqual([
      "600",
      ["saved"],
    ]);
    const bytes = readFileSync(file);
    for (const name of ["master.key", "owner-token"]) {
      expect(bytes.includes(readFileSync(path.join(dataDir, name), "utf8").trim())).toBe(false);
      expect(bytes.includes(name)).toBe(false);
    }
    expect(bytes.includes("SQLite format 3")).toBe(false);

    const into = path.join(scratchDirectory(), "new");
    const wrong = await run(MILLRACE, ["restore", file, "--data-dir", into], {
      env: { MILLRACE_BACKUP_PASSPHRASE: "twelve blue herons at moon" },
    });
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining("passphrase is wrong")]);
    const nobody = await run(MILLRACE, ["restore", file, "--data-dir", into]);
    expect([nobody.code, nobody.stderr]).toEqual([2, expect.stringContaining("no terminal")]);
    const words = path.join(scratchDirectory(), "words");
    writeFileSync(words, `${WORDS}\n`);
    const right = await run(MILLRACE, ["restore", file, "--data-dir", into, "--passphrase-file", words]);
    expect([right.code, right.stderr]).toEqual([0, ""]);
    expect(await installed(into)).toMatchObject({ token: owner.token });
    const again = service.on({ databaseUrl: null, dataDir: into });
    await again.start();
    expect((await again.post({ n: 1 })).json).toMatchObject({ result: 2 });
    await again.stop();
  },
);

verifies("hardening.backup.sealed", "cut or changed, it leaves nothing", async () => {
  const bytes = await sealedBytes();
  const folder = scratchDirectory();
  const changed = Buffer.from(bytes);
  changed[bytes.length - 100]! ^= 1;
  for (const content of [bytes.subarray(0, -1), bytes.subarray(0, 100), bytes.subarray(0, 20), changed]) {
    writeFileSync(`${folder}/broken`, content);
    const { code, stderr } = await run(
      MILLRACE,
      ["restore", `${folder}/broken`, "--data-dir", `${folder}/new`],
      {
        env: BY_ENV,
      },
    );
    expect([code, stderr]).toEqual([1, expect.stringMatching(/changed|cut off/)]);
    expect(readdirSync(folder)).toEqual(["broken"]);
  }
});

verifies(
  "hardening.backup.sealed",
  "nothing but the archive is ever written where an encrypted backup goes",
  async () => {
    const folder = scratchDirectory();
    const seen = new Set<string | null>();
    const news = new Condition();
    const watcher = watch(folder, (_, name) => {
      seen.add(name);
      news.notify();
    });
    onTestFinished(() => watcher.close());
    const { dataDir } = await sealedFile(folder);
    await until("the archive has its name", () => seen.has("saved"), news);
    expect(new Set(seen)).toEqual(new Set(["saved", "saved.partial"]));
    expect(readdirSync(path.join(dataDir, "work"))).toEqual([]);
  },
);

test("the format is what the documents say: a reader that knows nothing of ours finds a tar in it", async () => {
  const { key } = await installation();
  const file = path.join(scratchDirectory(), "opened.tar");
  writeFileSync(file, openByTheBook(await sealedBytes(), WORDS));
  const { stdout } = await run("tar", ["-xOf", file, "master.key"]);
  expect(stdout.trim()).toBe(key);
});

test("short passphrases and a passphrase without --encrypt are refused before anything is written", async () => {
  const { dataDir } = await installation();
  const folder = scratchDirectory();
  const words = path.join(scratchDirectory(), "words");
  writeFileSync(words, "short");
  const backup = ["backup", `${folder}/saved`, "--data-dir", dataDir];
  for (const [args, why] of [
    [["--encrypt", "--passphrase-file", words], /at least 12 characters/],
    [["--passphrase-file", words], /without --encrypt/],
    [["--encrypt"], /no terminal to ask for it/],
  ] as const) {
    const { code, stderr } = await run(MILLRACE, [...backup, ...args]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(why)]);
  }
  expect(readdirSync(folder)).toEqual([]);
});

verifies("hardening.backup.sealed", "at a terminal the passphrase is asked for and not shown", async () => {
  const { dataDir } = await installation();
  const cwd = scratchDirectory();
  const backup = [MILLRACE, "backup", "saved", "--data-dir", dataDir, "--encrypt"];
  const differing = new Terminal(backup, { cwd, env: {} });
  await differing.shows(/Passphrase for the backup: /);
  differing.type(`${WORDS}\n`);
  await differing.shows(/Repeat the passphrase: /);
  differing.type("something else\n");
  expect(await differing.exited).toBe(1);

  const terminal = new Terminal(backup, { cwd, env: {} });
  await terminal.shows(/Passphrase for the backup: /);
  terminal.type(`${WORDS}\n`);
  await terminal.shows(/Repeat the passphrase: /);
  terminal.type(`${WORDS}\n`);
  await terminal.shows(/It is encrypted/);
  expect(await terminal.exited).toBe(0);

  const restore = new Terminal([MILLRACE, "restore", "saved", "--data-dir", path.join(cwd, "new")], {
    cwd,
    env: {},
  });
  await restore.shows(/Passphrase of the backup: /);
  restore.type(`${WORDS}\n`);
  expect(await restore.exited).toBe(0);
  await until("it is there", () => readdirSync(cwd).includes("new"));
  for (const { raw } of [differing, terminal, restore]) expect(raw).not.toContain("herons");
});
