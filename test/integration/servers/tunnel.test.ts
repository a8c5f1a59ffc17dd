import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, onTestFinished } from "vitest";
import { Tunnel, type TunnelLimits } from "../../../src/kit/websocket/tunnel.ts";
import { Tunnels } from "../../../src/gateway/proxy/socket-route.ts";
import { payloadOf, readFrameHead } from "../../../src/kit/websocket/lane.ts";
import { HandClock } from "../../support/clocks.ts";
import { frame } from "../../support/socket-frames.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const LOOK_MS = 30_000;

/** Two ends of a real connection. */
async function pair(): Promise<{ near: Socket; far: Socket }> {
  const server = createServer({ allowHalfOpen: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const far = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const [near] = (await once(server, "connection")) as [Socket];
  server.close();
  onTestFinished(() => [near, far].forEach((socket) => void socket.destroy()));
  far.on("error", () => {});
  return { near, far };
}

type Frame = { readonly opcode: number; readonly payload: Buffer };

/** What a far end has got, frame by frame. */
class FarEnd {
  readonly socket: Socket;
  isEnded = false;
  #bytes = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (data: Buffer) => (this.#bytes = Buffer.concat([this.#bytes, data])));
    socket.once("end", () => (this.isEnded = true));
    socket.once("close", () => (this.isEnded = true));
  }

  get frames(): Frame[] {
    const frames: Frame[] = [];
    let at = 0;
    for (let head = readFrameHead(this.#bytes, at); head; head = readFrameHead(this.#bytes, at)) {
      frames.push({ opcode: head.opcode, payload: payloadOf(this.#bytes, at, head) });
      at += head.size + head.length;
    }
    return frames;
  }

  /** The code of the close frame it got, if any. */
  get code(): number | undefined {
    return this.frames.find(({ opcode }) => opcode === 8)?.payload.readUInt16BE();
  }
}

const DAY_MS = 24 * 3_600_000;
async function tunnel(limits: Partial<TunnelLimits> = {}) {
  const clock = new HandClock();
  const [caller, server] = await Promise.all([pair(), pair()]);
  const tunnels = new Tunnels(clock);
  const over: boolean[] = [];
  const made = new Tunnel({
    client: caller.near,
    app: server.near,
    limits: { maxAgeMs: DAY_MS, idleMs: DAY_MS, stallMs: DAY_MS, ...limits },
    clock,
    onOver: (isCut) => void over.push(isCut),
  });
  tunnels.add(made);
  const [client, app] = [new FarEnd(caller.far), new FarEnd(server.far)];
  return { clock, over, made, near: caller.near, client, app };
}

verifies(
  "servers.sockets.life",
  "a side that answers no ping is gone; one that does stays, unseen",
  async () => {
    const { clock, client, app, over } = await tunnel();
    clock.advance(LOOK_MS);
    await until("both are asked", () => [client, app].every(({ frames }) => frames.length === 1));
    for (const side of [client, app]) {
      const { opcode, payload } = side.frames[0]!;
      expect(opcode).toBe(9);
      side.socket.write(frame({ opcode: 10, payload }));
      // The answer has come when what follows it has.
      side.socket.write(frame({ opcode: 2, payload: Buffer.alloc(0) }));
    }
    await until("both are heard", () => [client, app].every(({ frames }) => frames.length === 2));
    expect([...client.frames, ...app.frames].map(({ opcode }) => opcode)).toEqual([9, 2, 9, 2]);
    // One look that finds them heard, one that asks, and one without an answer.
    for (let look = 0; look < 3; look++) {
      expect(client.isEnded).toBe(false);
      clock.advance(LOOK_MS);
    }
    await until("the client is given up", () => client.isEnded);
    app.socket.end();
    await until("all is over", () => over.length === 1);
  },
);

for (const [what, limits] of [
  ["is too old", { maxAgeMs: 10_000 }],
  ["is idle for too long", { idleMs: 10_000 }],
] as const) {
  verifies("servers.sockets.life", `one that ${what} ends with 1001 for both`, async () => {
    const { clock, client, app, over } = await tunnel(limits);
    clock.advance(LOOK_MS);
    await until("both are told", () => client.code === 1001 && app.code === 1001);
    for (const side of [client, app]) side.socket.end();
    await until("all is over", () => over.length === 1);
    expect(over).toEqual([false]);
  });
}

verifies(
  "servers.sockets.cut",
  "in the middle of a frame ours waits for its end, and for no longer than seconds",
  async () => {
    const { clock, client, app, made, over } = await tunnel();
    const text = frame({ payload: Buffer.alloc(1_000), mask: null });
    app.socket.write(text.subarray(0, 500));
    await until("half of it came", () => client.frames.length === 1);
    made.close(1012, "come again");
    await until("the app is told", () => app.code === 1012);
    expect(client.code).toBeUndefined();
    app.socket.write(text.subarray(500));
    await until("the client is told", () => client.code === 1012);
    clock.advance(5_000);
    await until("all is over", () => over.length === 1);
  },
);

verifies(
  "servers.sockets.close",
  "a client that leaves without a word leaves the app as it would without us",
  async () => {
    const { client, app, over } = await tunnel();
    client.socket.destroy();
    await until("the app knows", () => app.isEnded);
    expect(app.frames).toEqual([]);
    app.socket.end();
    await until("all is over", () => over.length === 1);
    expect(over).toEqual([false]);
  },
);

verifies("servers.sockets.cut", "an app that no longer reads ends it with 1011 for its caller", async () => {
  const { clock, client, near, app, over } = await tunnel({ stallMs: 4 * LOOK_MS });
  app.socket.pause();
  // More than all the buffers in between hold.
  client.socket.write(frame({ payload: Buffer.alloc(24 << 20), mask: null }));
  // The app is heard before each look; that nothing is read of the caller is no sign that it has gone.
  const heard = (): number => client.frames.filter(({ opcode }) => opcode < 8).length;
  for (let sent = 1; client.code === undefined && !client.isEnded; sent++) {
    app.socket.write(frame({ payload: Buffer.from("x"), mask: null }));
    await until("the app is heard", () => heard() === sent || client.isEnded);
    if (near.isPaused()) clock.advance(LOOK_MS);
  }
  expect(client.code).toBe(1011);
  clock.advance(5_000);
  await until("all is over", () => over.length === 1);
});

verifies("servers.sockets.close", "a caller who goes on sending reads why its app has gone", async () => {
  const { client, app, over } = await tunnel();
  const errors: Error[] = [];
  client.socket.on("error", (error) => errors.push(error));
  // As the kernel does it for a process that has not read everything.
  app.socket.resetAndDestroy();
  await until("the client is told", () => client.code === 1011 && client.isEnded);
  for (let sent = 0; sent < 20; sent++)
    await new Promise((resolve) => client.socket.write(frame({ payload: Buffer.alloc(100_000) }), resolve));
  expect(errors).toEqual([]);
  expect(over).toEqual([]);
  client.socket.end();
  await until("all is over", () => over.length === 1);
  expect(over).toEqual([true]);
});
