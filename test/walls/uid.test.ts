import {
  chmodSync,
  existsSync,
  lchownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { storageFolder } from "../../src/host/data-folders.ts";
import { findInterpreter } from "../../src/host/interpreter.ts";
import { settleStorage } from "../../src/host/storage/settle.ts";
import type { WallLevel } from "../../src/host/walls/walls.ts";
import { createLog } from "../../src/kit/log.ts";
import { MILLRACE, run, scratchDirectory } from "../support/command-line.ts";
import { type TestService, testService } from "../support/service.ts";
import { FIRST_USER, onlyUpTo, requireOffered } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";

const MAIN = `
import os

FILE = os.path.join(os.environ["PERSISTENT_STORAGE"], "count")

def who():
    return [os.getresuid(), os.getresgid(), os.getgroups()]

def count():
    try:
        with open(FILE) as file:
            number = int(file.read()) + 1
    except FileNotFoundError:
        number = 1
    with open(FILE, "w") as file:
        file.write(str(number))
    return number
`;

verifies(
  "walls.uid",
  "a project has one user over restarts, and its storage follows it to other levels and back",
  async (context) => {
    await requireOffered("uid", context);
    const dataDir = path.join(scratchDirectory(), "data");
    const seen: unknown[] = [];
    for (const isolation of ["userns", "uid", "uid", "userns", "none", "uid"] as const) {
      const level = isolation === "none" ? { isolation } : await onlyUpTo(isolation);
      const service = await testService({ app: { main: MAIN } }, { dataDir, ...level });
      const call = async (functionName: string) => await service.call("app", {}, { functionName });
      const [{ json: count }, { json: who }] = [await call("count"), await call("who")];
      const folder = storageFolder(service.service.owner.projectId, dataDir);
      const { uid, mode } = statSync(folder);
      seen.push([isolation, count.result, uid, mode & 0o7777]);
      expect(who.result.slice(0, 2)).toEqual([
        [uid, uid, uid],
        [uid, uid, uid],
      ]);
      if (isolation === "uid") expect(who.result[2]).toEqual([]);
      expect(statSync(path.join(folder, "count")).uid).toBe(uid);
      await service.service.stop();
    }
    expect(seen).toEqual([
      ["userns", 1, 0, 0o700],
      ["uid", 2, FIRST_USER, 0o700],
      ["uid", 3, FIRST_USER, 0o700],
      ["userns", 4, 0, 0o700],
      ["none", 5, 0, 0o700],
      ["uid", 6, FIRST_USER, 0o700],
    ]);
  },
);

verifies(
  ["walls.uid", "walls.storage"],
  "a backup beside running apps has the files of a project's user, and a restored service gives them to one again",
  async (context) => {
    await requireOffered("uid", context);
    const service = await testService({ app: { main: MAIN } }, { isolation: "uid" });
    const count = async (from: TestService) =>
      (await from.call("app", {}, { functionName: "count" })).json.result as number;
    expect(await count(service)).toBe(1);
    const { dataDir } = service.settings;
    const file = path.join(scratchDirectory(), "backup.tar");
    const restored = path.join(scratchDirectory(), "restored");
    for (const [args, env] of [
      [["backup", file, "--json"], { MILLRACE_DATA_DIR: dataDir }],
      [["restore", file, "--json"], { MILLRACE_DATA_DIR: restored }],
    ] as const) {
      const { code, stderr } = await run(MILLRACE, args, { env });
      expect([args[0], code, stderr]).toEqual([args[0], 0, ""]);
    }
    const copy = storageFolder(service.service.owner.projectId, restored);
    expect([statSync(copy).uid, readFileSync(path.join(copy, "count"), "utf8")]).toEqual([0, "1"]);
    const again = await testService({}, { dataDir: restored, isolation: "uid" });
    expect(await count(again)).toBe(2);
    expect(statSync(path.join(copy, "count")).uid).toBe(FIRST_USER);
    expect(await count(service)).toBe(2);
  },
);

/** A data directory with the storage of some projects, and what gives it to users. */
async function storageOf(...projects: readonly string[]) {
  const dataDir = path.join(scratchDirectory(), "data");
  for (const project of projects) mkdirSync(storageFolder(project, dataDir), { recursive: true });
  const python = (await findInterpreter("python3")).path;
  const settle = async (level: WallLevel | null, last = FIRST_USER + 9) =>
    await settleStorage({
      dataDir,
      uidRange: { first: FIRST_USER, last },
      level,
      python,
      log: createLog("silent"),
    });
  return { dataDir, folderOf: (project: string) => storageFolder(project, dataDir), settle };
}

verifies("walls.uid", "no two projects have the same user, and none is given twice", async (context) => {
  await requireOffered("uid", context);
  const { folderOf, settle } = await storageOf("p-a", "p-b", "p-c");
  lchownSync(folderOf("p-b"), FIRST_USER, FIRST_USER);
  // As after a copy of the folder.
  lchownSync(folderOf("p-c"), FIRST_USER, FIRST_USER);
  const storage = await settle("uid");
  const users = ["p-a", "p-b", "p-c", "p-new"].map((project) => storage.userOf(project));
  expect(users).toEqual([FIRST_USER + 1, FIRST_USER, FIRST_USER + 2, FIRST_USER + 3]);
  for (const [place, project] of ["p-a", "p-b", "p-c", "p-new"].entries())
    expect(statSync(folderOf(project)).uid).toBe(users[place]);
  const again = await settle("uid", FIRST_USER + 3);
  expect(["p-a", "p-b", "p-c", "p-new"].map((project) => again.userOf(project))).toEqual(users);
  expect(() => again.userOf("p-one-too-many")).toThrow(/widen MILLRACE_UID_RANGE/);
});

verifies(
  "walls.uid-adoption",
  "files are given to their project's user once, and nothing that a link or a second name leads to",
  async (context) => {
    await requireOffered("uid", context);
    const { dataDir, folderOf, settle } = await storageOf("p-a");
    const folder = folderOf("p-a");
    const key = path.join(dataDir, "master.key");
    writeFileSync(key, "secret");
    mkdirSync(path.join(dataDir, "outside"));
    mkdirSync(path.join(folder, "deep", "er"), { recursive: true });
    writeFileSync(path.join(folder, "deep", "er", "file"), "mine");
    // Two names, both inside: as package caches have them.
    linkSync(path.join(folder, "deep", "er", "file"), path.join(folder, "twin"));
    linkSync(key, path.join(folder, "deep", "stolen"));
    symlinkSync(key, path.join(folder, "link"));
    symlinkSync(path.join(dataDir, "outside"), path.join(folder, "folder-link"));
    const user = (await settle("uid")).userOf("p-a");
    const owners = ["", "deep", "deep/er", "deep/er/file", "twin", "link", "folder-link"].map(
      (name) => lstatSync(path.join(folder, name)).uid,
    );
    expect(new Set(owners)).toEqual(new Set([user]));
    expect([lstatSync(key).uid, lstatSync(path.join(dataDir, "outside")).uid]).toEqual([0, 0]);
    expect(existsSync(path.join(folder, "deep", "stolen"))).toBe(false);
    const aside = path.join(dataDir, "storage", ".aside", "p-a");
    expect(readdirSync(aside).map((name) => readFileSync(path.join(aside, name), "utf8"))).toEqual([
      "secret",
    ]);
  },
);

verifies(
  "walls.uid-deployed",
  "bundles and packages of another level, readable to root alone, are given with the storage",
  async (context) => {
    await requireOffered("uid", context);
    const { dataDir, settle } = await storageOf("p-a", "p-b");
    const key = path.join(dataDir, "master.key");
    writeFileSync(key, "secret");
    const made = (folder: string, file: string) => {
      const place = path.join(dataDir, folder);
      mkdirSync(path.join(place, path.dirname(file)), { recursive: true, mode: 0o700 });
      writeFileSync(path.join(place, file), "mine", { mode: 0o600 });
      return place;
    };
    const bundle = made("bundles/p-a/app/build", "logs/app.log");
    const environment = made("environments/p-a-packages", "lib/module.py");
    const others = made("bundles/p-b/app/build", "main.py");
    linkSync(key, path.join(bundle, "stolen"));
    symlinkSync(key, path.join(environment, "link"));
    const storage = await settle("uid");
    const ownersIn = (folder: string) =>
      ["", ...readdirSync(folder, { recursive: true, encoding: "utf8" })].map((name) => [
        name,
        lstatSync(path.join(folder, name)).uid,
      ]);
    const user = storage.userOf("p-a");
    expect(Object.fromEntries(ownersIn(bundle))).toEqual({
      "": user,
      logs: user,
      "logs/app.log": user,
      stolen: 0,
    });
    expect(Object.fromEntries(ownersIn(environment))).toEqual({
      "": 0,
      lib: user,
      "lib/module.py": user,
      link: user,
    });
    expect(statSync(environment).mode & 0o7777).toBe(0o755);
    expect(statSync(path.join(others, "main.py")).uid).toBe(storage.userOf("p-b"));
    await settle("landlock");
    expect(new Set([...ownersIn(bundle), ...ownersIn(environment)].map(([, uid]) => uid))).toEqual(
      new Set([0]),
    );
  },
);

verifies("walls.uid-adoption", "one that was cut short is finished by the next start", async (context) => {
  await requireOffered("uid", context);
  const { folderOf, settle } = await storageOf("p-a", "p-b");
  const folder = folderOf("p-b");
  writeFileSync(path.join(folder, "file"), "mine");
  const storage = await settle("uid");
  const user = storage.userOf("p-b");
  // The state in which a start that is killed leaves it: the folder is the user's already, not all that is in it.
  lchownSync(path.join(folder, "file"), 0, 0);
  expect((await settle("uid")).userOf("p-b")).toBe(user);
  expect(lstatSync(path.join(folder, "file")).uid).toBe(0);
  chmodSync(folder, 0o1700);
  expect((await settle("uid")).userOf("p-b")).toBe(user);
  expect([lstatSync(path.join(folder, "file")).uid, statSync(folder).mode & 0o7777]).toEqual([user, 0o700]);
});
