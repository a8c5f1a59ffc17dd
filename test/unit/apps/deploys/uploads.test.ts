import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough, Readable } from "node:stream";
import { afterAll, expect, test } from "vitest";
import { receiveFile } from "../../../../src/apps/deploys/uploads.ts";
import { verifies } from "../../../verifies.ts";

const root = mkdtempSync(path.join(tmpdir(), "millrace-receive-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let last = 0;
function place(): { dir: string; to: string } {
  const dir = path.join(root, String((last += 1)));
  return { dir, to: path.join(dir, "b.zip") };
}

verifies("deploy.upload", "what arrives is stored whole, for its owner alone", async () => {
  const { dir, to } = place();
  const sent = Array.from({ length: 50 }, (_, index) => Buffer.alloc(10_000, index));
  expect(await receiveFile(Readable.from(sent), to, { maxBytes: 500_000 })).toEqual({ bytes: 500_000 });
  expect(readFileSync(to).equals(Buffer.concat(sent))).toBe(true);
  expect(readdirSync(dir)).toEqual(["b.zip"]);
  expect(statSync(to).mode & 0o777).toBe(0o600);
});

test("an upload of no bytes is a file of none", async () => {
  const { to } = place();
  expect(await receiveFile(Readable.from([]), to, { maxBytes: 0 })).toEqual({ bytes: 0 });
  expect(readFileSync(to)).toEqual(Buffer.alloc(0));
});

verifies(
  "deploy.upload",
  "an upload that is too large leaves nothing, and its sender can be answered",
  async () => {
    const { dir, to } = place();
    const from = new PassThrough();
    from.write(Buffer.alloc(600));
    from.write(Buffer.alloc(600));
    await expect(receiveFile(from, to, { maxBytes: 1000 })).rejects.toMatchObject({
      code: "body_too_large",
      message: "The upload is larger than 1000 bytes.",
    });
    expect(readdirSync(dir)).toEqual([]);
    expect(from.destroyed).toBe(false);
    from.end();
    for await (const _ of from);
  },
);

verifies(
  "deploy.upload",
  "an upload that is broken off leaves nothing, nor does it touch what was there",
  async () => {
    const { dir, to } = place();
    const server = createServer((incoming, answer) => {
      const done = receiveFile(incoming, to, { maxBytes: 1e6 });
      done.then(
        () => answer.end(),
        () => undefined,
      );
      arrived.resolve({ done });
    });
    const arrived = Promise.withResolvers<{ done: Promise<unknown> }>();
    await receiveFile(Readable.from([Buffer.from("before")]), to, { maxBytes: 1e6 });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const sender = request({
        port,
        host: "127.0.0.1",
        method: "PUT",
        headers: { "content-length": 100_000 },
      });
      sender.on("error", () => undefined);
      sender.write(Buffer.alloc(50_000));
      const { done } = await arrived.promise;
      sender.destroy();
      await expect(done).rejects.toMatchObject({
        code: "bad_request",
        message: "The upload ended early; send it again.",
      });
      expect(readdirSync(dir)).toEqual(["b.zip"]);
      expect(readFileSync(to, "utf8")).toBe("before");
    } finally {
      server.close();
    }
  },
);

test("a stream that was gone before it began is an upload that ended early", async () => {
  const { dir, to } = place();
  const from = new PassThrough();
  from.destroy();
  await expect(receiveFile(from, to, { maxBytes: 10 })).rejects.toMatchObject({ code: "bad_request" });
  expect(readdirSync(dir)).toEqual([]);
});

test("a disk that is low takes no upload", async () => {
  const { dir, to } = place();
  const from = Readable.from([Buffer.from("x")]);
  await expect(
    receiveFile(from, to, { maxBytes: 10, shortage: () => "The disk is full." }),
  ).rejects.toMatchObject({
    code: "storage_unavailable",
  });
  expect(readdirSync(dir)).toEqual([]);
});

test("what a killed service left half does not matter", async () => {
  const { dir, to } = place();
  await receiveFile(Readable.from([]), to, { maxBytes: 10 });
  writeFileSync(`${to}.part`, "half of something that was longer");
  await receiveFile(Readable.from([Buffer.from("new")]), to, { maxBytes: 10 });
  expect(readFileSync(to, "utf8")).toBe("new");
  expect(readdirSync(dir)).toEqual(["b.zip"]);
});
