import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { ForwardedAnswer } from "../../../src/nodes/forward/forwarded-answer.ts";
import { verifies } from "../../verifies.ts";

const RECORD_BYTES = 16 * 1024;
const CHUNKED = { status: 200, headers: ["transfer-encoding", "chunked", "x-from", "owner"], length: null };

/** A caller who waits, and the answer that it gets. */
async function answering() {
  const server = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const answered = fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const [request, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
  const told: string[] = [];
  const answer = new ForwardedAnswer(
    {
      request,
      response,
      isLast: () => true,
      onOpen: () => void told.push("open"),
      onWritten: () => void told.push("written"),
    },
    { pause: () => void told.push("pause"), resume: () => void told.push("resume") },
  );
  return { answer, answered, response, told };
}

/** Memory of its own, as every read of a socket has. */
function readOf(letter: string): Buffer {
  return Buffer.from(new ArrayBuffer(RECORD_BYTES)).fill(letter);
}

verifies("peers.pace", "full records leave together, in their order, and are freed", async () => {
  const { answer, answered, response, told } = await answering();
  const reads = ["a", "b", "c"].map(readOf);
  answer.begin(CHUNKED);
  for (const read of reads) {
    answer.add(read.subarray(0, 100));
    answer.add(read.subarray(100));
    answer.flush(read);
    // Each read of a socket has a tick of its own.
    await new Promise((resolve) => process.nextTick(resolve));
  }
  // Nothing has left.
  expect(response.socket?.writableLength).toBeGreaterThan(3 * RECORD_BYTES);
  answer.end([]);
  const got = await answered;
  expect(got.headers.get("x-from")).toBe("owner");
  expect(await got.text()).toBe(["a", "b", "c"].map((letter) => letter.repeat(RECORD_BYTES)).join(""));
  expect(reads.map(({ length }) => length)).toEqual([0, 0, 0]);
  expect(told).toEqual(["open", "written"]);
});

verifies("peers.pace", "what is no full record waits for nothing", async () => {
  const { answer, answered, response } = await answering();
  answer.begin(CHUNKED);
  const bytes = Buffer.from("soon");
  answer.add(bytes);
  answer.flush(bytes);
  expect(response.socket?.writableCorked).toBeLessThanOrEqual(1);
  const reader = (await answered).body?.getReader();
  expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("soon");
  // A full one leaves with the end of the turn, whether or not another follows.
  const read = readOf("d");
  answer.add(read);
  answer.flush(read);
  let bytesRead = 0;
  while (bytesRead < RECORD_BYTES) bytesRead += (await reader?.read())?.value?.length ?? RECORD_BYTES;
  expect(bytesRead).toBe(RECORD_BYTES);
  expect(response.socket?.writableCorked).toBe(0);
  answer.end([]);
  expect((await reader?.read())?.done).toBe(true);
});

test("a caller who reads nothing slows the other node down, and is waited for once", async () => {
  const { answer, answered, response, told } = await answering();
  answer.begin(CHUNKED);
  let sent = 0;
  for (; !told.includes("pause"); sent += 1) {
    const read = readOf("e");
    answer.add(read);
    answer.flush(read);
  }
  const more = readOf("f");
  answer.add(more);
  answer.flush(more);
  expect(told).toEqual(["open", "pause"]);
  expect(response.listenerCount("drain")).toBe(1);
  await once(response, "drain");
  answer.end([]);
  expect((await (await answered).text()).length).toBe((sent + 1) * RECORD_BYTES);
  expect(told).toEqual(["open", "pause", "resume", "written"]);
});
