import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { GzipMember } from "../../../src/kit/gzip-member.ts";
import { SAMPLES, text, writeMember } from "../../support/gzip-samples.ts";

test("Python reads it", () => {
  const code = "import gzip, sys; sys.stdout.buffer.write(gzip.decompress(sys.stdin.buffer.read()))";
  const out = execFileSync("python3", ["-c", code], {
    input: Buffer.concat(writeMember(SAMPLES)),
    maxBuffer: 2 ** 24,
  });
  expect(out.equals(Buffer.concat(SAMPLES))).toBe(true);
});

test("curl --compressed prints each piece before the next is sent", async () => {
  const samples = [text(30), text(2048), randomBytes(700), text(31)];
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const curl = spawn("curl", ["-sN", "--compressed", `http://127.0.0.1:${port}/`]);
  try {
    const [, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
    const member = new GzipMember();
    response.writeHead(200, { "content-encoding": "gzip" });
    response.write(member.begin());
    const printing = curl.stdout[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    for (const sample of samples) {
      response.write(member.add(sample));
      let printed = Buffer.alloc(0);
      while (printed.length < sample.length) {
        const next = await printing.next();
        if (next.done) throw new Error("curl ended early");
        printed = Buffer.concat([printed, next.value]);
      }
      expect(printed.equals(sample)).toBe(true);
    }
    const closed = once(curl, "close");
    response.end(member.end());
    expect(await printing.next()).toMatchObject({ done: true });
    expect(await closed).toEqual([0, null]);
  } finally {
    curl.kill();
    server.close();
    server.closeAllConnections();
  }
});
