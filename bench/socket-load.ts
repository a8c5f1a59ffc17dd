import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { SocketAnswer, SocketJob } from "./socket-client.ts";

// The other end of many WebSockets, a process of its own. It takes one job per line on stdin, answers each with one
// line on stdout, and ends with its stdin.

/** Handshakes under way at once: more would only wait in the server's backlog. */
const OPENING = 50;
const SWITCHED = "HTTP/1.1 101 ";
/** A text, masked with zeros; its echo is the same without the mask. */
const TEXT = "small frame";
const FRAME = Buffer.from([0x81, 0x80 | TEXT.length, 0, 0, 0, 0, ...Buffer.from(TEXT)]);
const ECHO_BYTES = 2 + TEXT.length;
const CLOSE = Buffer.from([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]);
const NOTHING = { perSecond: 0, frames: 0 };

let sockets: Socket[] = [];

/** Resolves when the handshake is over. */
async function open({ host, port, request }: SocketJob): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = connect({ host, port, noDelay: true });
  let head = "";
  const onData = (data: Buffer): void => {
    head += data.toString("latin1");
    if (!head.includes("\r\n\r\n")) return;
    socket.off("data", onData);
    if (head.startsWith(SWITCHED)) resolve(socket);
    else reject(new Error(`a handshake was answered ${head.slice(0, head.indexOf("\r\n"))}`));
  };
  socket.on("data", onData);
  socket.on("error", reject);
  socket.on("close", () => reject(new Error("the connection was closed")));
  socket.write(request, "latin1");
  return await promise;
}

async function openAll(job: SocketJob): Promise<void> {
  let begun = 0;
  const opened: Socket[] = [];
  const next = async (): Promise<void> => {
    while (begun < job.sockets) {
      begun += 1;
      opened.push(await open(job));
    }
  };
  await Promise.all(Array.from({ length: OPENING }, next));
  sockets = opened;
}

/** One frame in flight on each. */
async function echo({ leadInMs, measureMs }: SocketJob): Promise<Pick<SocketAnswer, "perSecond" | "frames">> {
  let frames = 0;
  let isOver = false;
  const lastEchoes: Promise<void>[] = [];
  for (const socket of sockets) {
    let bytes = 0;
    const { promise: lastEcho, resolve, reject } = Promise.withResolvers<void>();
    lastEchoes.push(lastEcho);
    socket.once("close", () => reject(new Error("a WebSocket was closed before its last frame came back")));
    socket.on("data", (data: Buffer) => {
      bytes += data.length;
      while (bytes >= ECHO_BYTES) {
        bytes -= ECHO_BYTES;
        frames += 1;
        if (isOver) resolve();
        else socket.write(FRAME);
      }
    });
    socket.write(FRAME);
  }
  const allEchoed = Promise.all(lastEchoes);
  allEchoed.catch(() => {}); // Told below, when the window is over.
  await new Promise((resolve) => setTimeout(resolve, leadInMs));
  const startedAt = performance.now();
  const before = frames;
  await new Promise((resolve) => setTimeout(resolve, measureMs));
  isOver = true;
  const perSecond = ((frames - before) * 1000) / (performance.now() - startedAt);
  await allEchoed;
  return { perSecond, frames };
}

async function closeAll(): Promise<void> {
  const closing = sockets.map(async (socket) => {
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.resume();
    socket.end(CLOSE);
    await closed;
  });
  sockets = [];
  await Promise.all(closing);
}

async function carryOut(job: SocketJob): Promise<SocketAnswer> {
  try {
    if (job.kind === "close") await closeAll();
    else await openAll(job);
    const counts = job.kind === "echo" ? await echo(job) : NOTHING;
    if (job.kind === "echo") await closeAll();
    return { problem: null, ...counts };
  } catch (error) {
    return { problem: (error as Error).message, ...NOTHING };
  }
}

for await (const line of createInterface({ input: process.stdin }))
  console.log(JSON.stringify(await carryOut(JSON.parse(line) as SocketJob)));
process.exit();
