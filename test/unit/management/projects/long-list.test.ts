import { EventEmitter } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import type { FastifyReply } from "fastify";
import { expect, onTestFinished, test } from "vitest";
import { Volume } from "../../../../src/apps/volumes/volume.ts";
import { createLog } from "../../../../src/kit/log.ts";
import { Trash } from "../../../../src/kit/remove-tree.ts";
import { jsonPieces, LongLists } from "../../../../src/management/projects/volumes.ts";
import { verifies } from "../../../verifies.ts";

/** An answer that keeps what it is given. */
class Answer {
  readonly raw = Object.assign(new EventEmitter(), { destroyed: false });
  sent: Readable | null = null;

  type(): this {
    return this;
  }

  send(sent: Readable): this {
    this.sent = sent;
    return this;
  }

  get asReply(): FastifyReply {
    return this as unknown as FastifyReply;
  }
}

test("a list in pieces is the same JSON", async () => {
  for (const count of [0, 1, 499, 500, 501, 1_234]) {
    const entries = Array.from({ length: count }, (_, place) => ({ name: `"${place}",[`, place }));
    const pieces = [...jsonPieces(entries)];
    expect(JSON.parse(pieces.join(""))).toEqual(entries);
    expect(pieces).toHaveLength(count === 0 ? 1 : Math.ceil(count / 500) + 1);
  }
});

verifies(
  "hardening.lists",
  "a project's lists are read one after the other, another's meanwhile",
  async () => {
    const lists = new LongLists();
    const begun: string[] = [];
    const read = async (name: string): Promise<string[]> => {
      begun.push(name);
      return [name];
    };
    const answers = [1, 2, 3].map(() => new Answer());
    const ends = answers.map((answer, place) => lists.send(answer.asReply, "p-1", () => read(`a${place}`)));
    const other = new Answer();
    await Promise.all([ends[0], lists.send(other.asReply, "p-2", () => read("b"))]);
    expect(begun).toEqual(["a0", "b"]);
    expect(await text(answers[0]?.sent as Readable)).toBe('["a0"]');
    // Read, but not gone: the next has to wait.
    expect(begun).toEqual(["a0", "b"]);
    for (const [place, answer] of answers.entries()) {
      await ends[place];
      answer.raw.emit("close");
    }
    expect(begun).toEqual(["a0", "b", "a1", "a2"]);
  },
);

verifies(
  "hardening.lists",
  "a folder with too many entries is refused, one with as many is listed",
  async () => {
    const root = await mkdtemp(path.join(os.tmpdir(), "millrace-list-"));
    onTestFinished(() => rm(root, { recursive: true }));
    for (let file = 0; file < 20; file += 1) await writeFile(path.join(root, `f${file}`), "");
    const trash = new Trash(`${root}.trash`, createLog("silent"));
    expect(await new Volume(root, trash, 20).list([])).toHaveLength(20);
    await expect(new Volume(root, trash, 19).list([])).rejects.toMatchObject({ code: "bad_request" });
  },
);
