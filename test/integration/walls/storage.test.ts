import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { expect } from "vitest";
import type { Volumes } from "../../../src/apps/volumes/volumes.ts";
import { addDataDirectory, storageArchiver } from "../../../src/cli/operator/archive.ts";
import { removeTree } from "../../../src/kit/remove-tree.ts";
import { TarWriter } from "../../../src/kit/tar/archive.ts";
import { scratchDirectory } from "../../support/command-line.ts";
import { until } from "../../support/until.ts";
import { PROJECT, RANGE, openVolumes, startRacer } from "../../support/walls/kept-storage.ts";
import { RACES, TRIED_OWNERS } from "../../support/walls/tried-levels.ts";
import { verifies } from "../../verifies.ts";

const SECRET = "what belongs to nobody here";

/** Folders that lie too deep, and some whose path is too long. */
const DEEP = `import os, sys
top = os.open(sys.argv[1], os.O_RDONLY)
if sys.argv[2]:
    os.setuid(int(sys.argv[2]))
for name, depth in (("d", 700), ("l" * 200, 19)):
    os.fchdir(top)
    for _ in range(depth):
        os.mkdir(name)
        os.chdir(name)
    open("file", "w").write("deep")
`;

async function upload(volumes: Volumes, filePath: string, content: string) {
  const uploadId = await volumes.begin(PROJECT, filePath, 1);
  const etag = await volumes.put(uploadId, 1, Readable.from([Buffer.from(content)]));
  return await volumes.complete(PROJECT, { uploadId, filePath, tags: [{ partNumber: 1, etag }] });
}

async function download(volumes: Volumes, filePath: string, first = 0): Promise<string> {
  const file = await volumes.open(await volumes.offer(PROJECT, filePath));
  if (!file) throw new Error("there is no such right");
  return await text(file.bytes({ first, last: file.sizeBytes - 1 }));
}

async function codeOf(work: Promise<unknown>): Promise<unknown> {
  return await work.then(
    () => null,
    (error: { code?: string }) => error.code ?? error,
  );
}

for (const whose of TRIED_OWNERS) {
  verifies(
    "walls.storage",
    `with files of ${whose} a volume is written, listed, read, counted and cleared`,
    async (context) => {
      const { volumes, folder, user } = await openVolumes(whose, context);
      expect(await upload(volumes, "a/b/file", "one")).toEqual({ beforeBytes: null, afterBytes: 3 });
      expect(await upload(volumes, "a/b/file", "second")).toEqual({ beforeBytes: 3, afterBytes: 6 });
      await volumes.begin(PROJECT, "empty", 0);
      const listed = async (dir: string) =>
        (await volumes.list(PROJECT, dir)).map(({ name, isFolder, sizeBytes }) => [
          name,
          isFolder,
          sizeBytes,
        ]);
      expect(await listed("/")).toEqual([
        ["a", true, 0],
        ["empty", false, 0],
      ]);
      expect([await listed("a/b"), await listed("nothing")]).toEqual([[["file", false, 6]], []]);
      expect([await download(volumes, "a/b/file"), await download(volumes, "a/b/file", 3)]).toEqual([
        "second",
        "ond",
      ]);
      const owner = user ?? process.getuid?.();
      for (const name of ["a", "a/b", "a/b/file", "empty"])
        expect([name, statSync(path.join(folder, name)).uid]).toEqual([name, owner]);
      expect(await codeOf(volumes.remove(PROJECT, "a"))).toBe("bad_request");
      expect(await codeOf(volumes.remove(PROJECT, "empty/"))).toBe("bad_request");
      expect(await codeOf(upload(volumes, "a/b", "x"))).toBe("bad_request");
      expect(await codeOf(volumes.offer(PROJECT, "a"))).toBe("bad_request");
      expect(await volumes.remove(PROJECT, "empty")).toEqual({ beforeBytes: 0, afterBytes: null });
      expect(await codeOf(volumes.remove(PROJECT, "empty"))).toBe("not_found");
      await volumes.remove(PROJECT, "a/");
      expect(await listed("/")).toEqual([]);
      await until("nothing is left of it", () => readdirSync(folder).length === 0);
    },
  );

  verifies(
    "walls.storage",
    `with files of ${whose} no link, pipe, device or second name leads out, and nobody waits for one`,
    async (context) => {
      const { volumes, dataDir, folder, user, give } = await openVolumes(whose, context);
      const key = path.join(dataDir, "master.key");
      writeFileSync(key, SECRET, { mode: 0o600 });
      mkdirSync(path.join(folder, "inside"));
      writeFileSync(path.join(folder, "inside", "file"), "mine");
      symlinkSync("inside", path.join(folder, "around"));
      for (const [name, target] of Object.entries({ key, root: "/", up: "..", loop: "loop", none: "none" }))
        symlinkSync(target, path.join(folder, name));
      execFileSync("mkfifo", [path.join(folder, "pipe")]);
      give();
      if (user !== null) {
        execFileSync("mknod", [path.join(folder, "device"), "c", "1", "5"]);
        // As an app of the service's own user could once make it; below `uid` only walls keep it from that.
        linkSync(key, path.join(folder, "second"));
        symlinkSync("/persistent-storage/inside", path.join(folder, "literal"));
        expect(await download(volumes, "literal/file")).toBe("mine");
        await upload(volumes, "literal/more", "more");
        expect(readFileSync(path.join(folder, "inside", "more"), "utf8")).toBe("more");
      }
      expect(await download(volumes, "around/file")).toBe("mine");
      const names = (await volumes.list(PROJECT, "/")).map(({ name }) => name);
      expect(names.filter((name) => !["literal", "second"].includes(name))).toEqual(["around", "inside"]);
      for (const dir of ["root", "up", "loop", "none", "key"])
        expect([dir, await volumes.list(PROJECT, dir)]).toEqual([dir, []]);
      for (const file of ["key", "second", "root/etc/passwd", "up/p-one/inside/../../key", "loop", "none"])
        expect([file, (await codeOf(volumes.offer(PROJECT, file))) !== null]).toEqual([file, true]);
      for (const file of ["pipe", "device"])
        expect([file, (await codeOf(volumes.offer(PROJECT, file))) !== null]).toEqual([file, true]);
      for (const file of ["root/tmp/planted", "up/planted", "none/planted"])
        expect([file, (await codeOf(upload(volumes, file, "x"))) !== null]).toEqual([file, true]);
      await upload(volumes, "key", "mine now");
      await volumes.remove(PROJECT, "root");
      expect([readFileSync(key, "utf8"), existsSync("/etc/passwd")]).toEqual([SECRET, true]);
    },
  );

  verifies(
    "walls.storage",
    `with files of ${whose} an app that swaps folders for links gets nothing in, out or away`,
    async (context) => {
      const { volumes, dataDir, folder, user, python, give } = await openVolumes(whose, context);
      const outside = path.join(dataDir, "outside");
      mkdirSync(outside);
      writeFileSync(path.join(outside, "file"), SECRET);
      mkdirSync(path.join(folder, "swapped"));
      writeFileSync(path.join(folder, "swapped", "file"), "mine");
      give();
      const racer = await startRacer(path.join(folder, "swapped"), outside, user);
      for (let round = 0; round < RACES; round++) {
        const [read, listed] = await Promise.all([
          download(volumes, "swapped/file").catch(() => ""),
          volumes.list(PROJECT, "swapped"),
          codeOf(upload(volumes, `swapped/planted-${round}`, "planted")),
          codeOf(volumes.remove(PROJECT, "swapped/file-that-is-not-there")),
        ]);
        expect(read).not.toContain(SECRET);
        expect(listed.filter(({ sizeBytes }) => sizeBytes === SECRET.length)).toEqual([]);
      }
      for (let round = 0; round < RACES; round++) {
        const file = path.join(scratchDirectory(), "backup.tar");
        const tar = await TarWriter.create(file);
        const add = storageArchiver({ dataDir, uidRange: RANGE, python });
        // What is outside is in the archive once, under its own name.
        await addDataDirectory(tar, dataDir, { leftOut: [], changed: [] }, add);
        await tar.finish();
        expect(readFileSync(file, "latin1").split(SECRET)).toHaveLength(2);
      }
      for (let round = 0; round < RACES; round++) await codeOf(volumes.remove(PROJECT, "swapped/file"));
      await racer.stop();
      await codeOf(volumes.remove(PROJECT, "swapped/"));
      await codeOf(volumes.remove(PROJECT, "swapped-aside/"));
      expect(readdirSync(outside)).toEqual(["file"]);
      expect(readFileSync(path.join(outside, "file"), "utf8")).toBe(SECRET);
    },
  );

  verifies(
    "walls.storage",
    `with files of ${whose} a backup leaves out what lies too deep to be restored, and has the rest`,
    async (context) => {
      const { dataDir, folder, user, python, give } = await openVolumes(whose, context);
      writeFileSync(path.join(folder, "z-last"), SECRET);
      give();
      execFileSync("python3", ["-c", DEEP, folder, String(user ?? "")]);
      const file = path.join(scratchDirectory(), "backup.tar");
      const tar = await TarWriter.create(file);
      const odd = { leftOut: [] as string[], changed: [] };
      await addDataDirectory(tar, dataDir, odd, storageArchiver({ dataDir, uidRange: RANGE, python }));
      await tar.finish();
      await removeTree(folder);
      const leftOut = new Set(odd.leftOut.map((name) => name.split("/")[2]?.at(0)));
      expect(leftOut).toEqual(new Set(["d", "l"]));
      expect(readFileSync(file, "latin1")).toContain(SECRET);
    },
  );
}

verifies(
  "walls.storage",
  "a volume that its app has closed to itself is left out of a backup, which has the rest",
  async (context) => {
    const { dataDir, folder, python, give } = await openVolumes("the project", context);
    writeFileSync(path.join(dataDir, "z-last"), SECRET);
    give();
    chmodSync(folder, 0);
    const file = path.join(scratchDirectory(), "backup.tar");
    const tar = await TarWriter.create(file);
    const odd = { leftOut: [] as string[], changed: [] };
    await addDataDirectory(tar, dataDir, odd, storageArchiver({ dataDir, uidRange: RANGE, python }));
    await tar.finish();
    expect(odd.leftOut).toEqual([`storage/${PROJECT}`]);
    expect(readFileSync(file, "latin1")).toContain(SECRET);
  },
);

verifies(
  "walls.storage",
  "a folder that its app has closed to itself is removed, with the folders in it, however deep",
  async (context) => {
    const { volumes, folder, give } = await openVolumes("the project", context);
    const deep = path.join(folder, "gone", ...Array.from({ length: 300 }, () => "d"));
    mkdirSync(deep, { recursive: true });
    writeFileSync(path.join(deep, "file"), "x");
    give();
    chmodSync(path.join(folder, "gone", "d"), 0);
    await volumes.remove(PROJECT, "gone/");
    await until("nothing is left of it", () => readdirSync(folder).length === 0);
  },
);
