import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { readWhole } from "../../../src/nodes/forward/forwarded-request.ts";

const HEAD = "POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 5\r\n\r\n";

async function received(sent: string) {
  const server = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const caller = connect((server.address() as AddressInfo).port, "127.0.0.1");
  onTestFinished(() => void caller.destroy());
  caller.write(sent);
  const [request] = (await once(server, "request")) as [IncomingMessage];
  return { request, caller };
}

test("a body that is passed on is read as a whole", async () => {
  const { request } = await received(`${HEAD}hello`);
  expect((await readWhole(request, 5))?.toString()).toBe("hello");
  // Its end is still to come.
  const ended = once(request, "end");
  request.resume();
  await ended;
});

test("what was read can be put back, and is read again as it came", async () => {
  const { request } = await received(`${HEAD}hello`);
  request.unshift(await readWhole(request, 5));
  expect(await text(request)).toBe("hello");
});

test("nobody waits for the body of a caller who had gone before", async () => {
  const { request, caller } = await received(`${HEAD}he`);
  request.on("error", () => undefined);
  const closed = new Promise((resolve) => request.once("close", resolve));
  caller.destroy();
  await closed;
  expect(await readWhole(request, 5)).toBeNull();
});
