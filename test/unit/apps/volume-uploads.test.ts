import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { expect, onTestFinished } from "vitest";
import { Trash } from "../../../src/kit/remove-tree.ts";
import { Uploads } from "../../../src/apps/volumes/uploads.ts";
import { createLog } from "../../../src/kit/log.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "bodies.uploads",
  "a part has a limit of its own, and nothing is left of one that is larger",
  async () => {
    const dir = await mkdtemp(path.join(tmpdir(), "millrace-uploads-"));
    onTestFinished(() => rm(dir, { recursive: true, force: true }));
    const trash = new Trash(path.join(dir, "trash"), createLog("silent"));
    const parts = { dir: path.join(dir, "uploads"), trash, clock: new HandClock(), shortage: () => null };
    const uploads = new Uploads({ ...parts, maxPartBytes: 10 });
    const upload = await uploads.begin(2);
    const sent = (...pieces: string[]): Readable => Readable.from(pieces.map((piece) => Buffer.from(piece)));
    const tag = await uploads.put(upload, 1, sent("12345", "67890"));
    await expect(uploads.put(upload, 2, sent("12345", "67890", "1"))).rejects.toMatchObject({
      code: "body_too_large",
    });
    expect(await readdir(path.join(parts.dir, upload.id))).toEqual([`1-${tag.replaceAll('"', "")}`]);
  },
);
