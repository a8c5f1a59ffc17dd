import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createPool, targetOf } from "../../../../src/store/postgres/connections.ts";
import { isConnectionLost, ofQuery } from "../../../../src/store/postgres/errors.ts";

/** A message of Postgres: its letter, its length, what it says. */
function message(letter: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5, letter);
  head.writeUInt32BE(content.length + 4, 1);
  return Buffer.concat([head, content]);
}

test("a connection that is ended as it comes ends nothing else", async () => {
  const welcome = message("R", Buffer.alloc(4));
  const ready = message("Z", Buffer.from("I"));
  const end = message(
    "E",
    Buffer.from("SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"),
  );
  const server = createServer((socket) => {
    socket.on("error", () => {});
    // One piece, as a busy client reads it.
    socket.once("data", () => socket.end(Buffer.concat([welcome, ready, end])));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const target = targetOf(`postgres://u@127.0.0.1:${port}/db`);
  const pool = createPool(target, { max: 1, waitMs: 5_000, statementMs: 5_000 });
  const client = await pool.connect();
  const error: unknown = await client.query("select 1").catch((reason: unknown) => reason);
  expect(isConnectionLost(ofQuery(error))).toBe(true);
  client.release(true);
  await pool.end();
});
