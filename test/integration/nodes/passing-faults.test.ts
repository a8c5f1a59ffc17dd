import { once } from "node:events";
import { Agent, type IncomingMessage, request as httpRequest, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { buffer, text } from "node:stream/consumers";
import { expect, onTestFinished } from "vitest";
import { CLOSE, payloadOf, readFrameHead } from "../../../src/kit/websocket/lane.ts";
import { MOVED_HEADER, MOVED_STATUS } from "../../../src/nodes/forward/hop-head.ts";
import type { ForwardResult } from "../../../src/nodes/forward/forwarded-request.ts";
import { Peers } from "../../../src/nodes/peers.ts";
import { HandClock } from "../../support/clocks.ts";
import {
  answerOf,
  ask,
  bareServer,
  testAuthority,
  testHop,
  testNode,
  testPassage,
} from "../../support/nodes/hop.ts";
import { frame } from "../../support/socket-frames.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MIB = 1024 * 1024;

verifies("peers.lost", "an owner that is lost before it answers is told of", async () => {
  const { passedUrl, passed } = await testHop(({ socket }) => socket.destroy());
  for (const method of ["GET", "POST"]) {
    const response = await answerOf(ask(passedUrl, method));
    expect([response.statusCode, await text(response)]).toEqual([502, "lost"]);
  }
  expect(passed).toEqual(["lost", "lost"]);
});

verifies("peers.lost", "an owner that is gone without a word is waited for no more", async () => {
  const begun = Promise.withResolvers<void>();
  const { passedUrl, passed, front, owner } = await testHop(() => begun.resolve());
  const answered = answerOf(ask(passedUrl, "POST"));
  await begun.promise;
  // What is under way goes on while it may still come.
  front.peers.forget(owner.peer.id);
  front.peers.abandon(owner.peer.id);
  expect([(await answered).statusCode, passed]).toEqual([502, ["lost"]]);
});

for (const [name, headers] of [
  ["in the middle of a body", ["content-length", "100"]],
  ["in the middle of a stream", ["content-type", "text/event-stream"]],
] as const) {
  verifies("peers.lost", `an owner that is lost ${name}: the answer is cut, not ended`, async () => {
    let owner: Socket | null = null;
    const { passedUrl, passed } = await testHop((request, response) => {
      owner = request.socket;
      response.writeHead(200, [...headers]);
      response.write("half of it");
    });
    const response = await answerOf(ask(passedUrl));
    const [first] = (await once(response, "data")) as [Buffer];
    expect(first.toString()).toBe("half of it");
    (owner as Socket | null)?.destroy();
    await expect(buffer(response)).rejects.toThrow("aborted");
    expect(response.complete).toBe(false);
    expect(passed).toEqual(["lost"]);
  });
}

verifies(
  "peers.lost",
  "a kept connection that ends with a request: only what changes nothing goes again",
  async () => {
    const seen: string[] = [];
    const sockets = new Set<Socket>();
    const { passedUrl } = await testHop((request, response) => {
      const { method = "", socket } = request;
      seen.push(method);
      // The second request on a connection never gets an answer.
      if (sockets.has(socket)) socket.destroy();
      sockets.add(socket);
      if (!socket.destroyed) response.writeHead(200, ["content-length", "0"]).end();
    });
    const status = async (method: string): Promise<number | undefined> => {
      const response = await answerOf(ask(passedUrl, method));
      await buffer(response);
      return response.statusCode;
    };
    expect([await status("GET"), await status("GET")]).toEqual([200, 200]);
    expect(seen).toEqual(["GET", "GET", "GET"]);
    expect(await status("POST")).toBe(502);
    expect(seen).toEqual(["GET", "GET", "GET", "POST"]);
  },
);

verifies("peers.unreached", "a node that is not there, or says nothing, has begun nothing", async () => {
  const authority = await testAuthority();
  const clock = new HandClock();
  const peers = new Peers(authority.issue("front"), clock);
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  onTestFinished(() => {
    peers.close();
    silent.close();
  });
  const gone = await testNode(authority);
  await gone.listener.close();
  const { port } = silent.address() as AddressInfo;
  const passed: ForwardResult[] = [];
  const url = await bareServer((request, response) => {
    void (async () => {
      const passage = testPassage(peers, request, response);
      passed.push(await passage.to(gone.peer));
      const late = passage.to({ id: "silent", url: `https://127.0.0.1:${port}` });
      await once(silent, "connection");
      clock.advance(2_000);
      passed.push(await late);
      response.end();
    })();
  });
  await buffer(await answerOf(ask(url, "POST", { "content-length": "0" })));
  expect(passed).toEqual(["unreached", "unreached"]);
});

for (const bytes of [5, MIB]) {
  verifies(
    "peers.moved",
    `a body of ${bytes} bytes goes to the node that has the app, after one that has not`,
    async () => {
      const authority = await testAuthority();
      let wasSent = false;
      const before = await testNode(authority, {
        api: (request, response) => {
          request.once("data", () => (wasSent = true));
          response.writeHead(MOVED_STATUS, [MOVED_HEADER, "1", "content-length", "0"]).end();
        },
      });
      const owner = await testNode(authority, {
        api: (request, response, { isHeld }) => {
          if (isHeld) response.writeContinue();
          void buffer(request).then((body) => response.end(String(body.length)));
        },
      });
      const front = await testNode(authority);
      const passed: ForwardResult[] = [];
      const url = await bareServer((request, response) => {
        void (async () => {
          const passage = testPassage(front.peers, request, response);
          passed.push(await passage.to(before.peer), await passage.to(owner.peer));
        })();
      });
      const request = ask(url, "POST", { "content-length": String(bytes) });
      request.write(Buffer.alloc(bytes));
      const response = await answerOf(request);
      expect(await text(response)).toBe(String(bytes));
      expect(passed).toEqual(["moved", "done"]);
      if (bytes === MIB) expect(wasSent).toBe(false);
    },
  );
}

verifies("peers.moved", "an app cannot say that it has moved", async () => {
  const { passedUrl, passed } = await testHop((_, response) => {
    response
      .writeHead(MOVED_STATUS, ["x-request-id", "1", MOVED_HEADER, "1", "content-length", "4"])
      .end("mine");
  });
  const response = await answerOf(ask(passedUrl));
  expect([response.statusCode, await text(response)]).toEqual([MOVED_STATUS, "mine"]);
  expect(passed).toEqual(["done"]);
});

verifies(
  "peers.aborts",
  "a caller who leaves ends the request at the owner, whatever state it is in",
  async () => {
    const open: IncomingMessage[] = [];
    const { passedUrl } = await testHop((request, response) => {
      open.push(request);
      if (request.url === "/stream") response.writeHead(200).write("data");
      request.resume();
    });
    const waiting = ask(`${passedUrl}/waiting`);
    waiting.end();
    const streaming = ask(`${passedUrl}/stream`);
    await once(await answerOf(streaming), "data");
    const uploading = ask(`${passedUrl}/upload`, "POST", { "content-length": String(10 * MIB) });
    uploading.write(Buffer.alloc(MIB));
    await until("all three have arrived", () => open.length === 3);
    for (const request of [waiting, streaming, uploading]) request.destroy();
    await until("their connections have ended", () => open.every(({ socket }) => socket.destroyed));
  },
);

verifies("peers.pace", "an owner waits for a slow reader, and a caller for a slow owner", async () => {
  const total = 64 * MIB;
  const piece = Buffer.alloc(MIB, "x");
  let answer: ServerResponse | null = null;
  let upload: IncomingMessage | null = null;
  const { passedUrl } = await testHop((request, response) => {
    if (request.method === "POST") {
      upload = request;
      return;
    }
    answer = response;
    response.writeHead(200, ["content-length", String(total)]);
    let sent = 0;
    const send = (): void => {
      while (sent < total) {
        sent += piece.length;
        if (!response.write(piece)) {
          response.once("drain", send);
          return;
        }
      }
      response.end();
    };
    send();
  });
  const response = await answerOf(ask(passedUrl));
  const isHeldUp = (): boolean => answer?.writableNeedDrain === true && !answer.writableEnded;
  await until("the owner waits", isHeldUp);
  expect((await buffer(response)).length).toBe(total);

  const request = ask(passedUrl, "POST", { "content-length": String(total) });
  const sending = (async () => {
    for (let sent = 0; sent < total; sent += piece.length)
      if (!request.write(piece)) await once(request, "drain");
    request.end();
  })();
  await until("the upload has arrived", () => upload !== null);
  await until("its caller waits", () => request.writableNeedDrain);
  const body = buffer(upload as unknown as IncomingMessage);
  await sending;
  expect((await body).length).toBe(total);
});

verifies(
  "peers.sockets",
  "a WebSocket passes through, and ends with a close frame when the owner is lost",
  async () => {
    let owner: Socket | null = null;
    const { passedUrl } = await testHop(() => {}, {
      apiUpgrade: (request, socket, first) => {
        owner = socket;
        const { upgrade, connection } = request.headers;
        const told = `x-told: ${upgrade} ${connection} ${String(request.headers["x-mine"])}\r\n`;
        socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n${told}\r\n`);
        socket.on("data", (data: Buffer) => socket.write(unmasked(data)));
        if (first.length > 0) socket.write(unmasked(first));
      },
    });
    const { hostname, port } = new URL(passedUrl);
    const caller = connect({ host: hostname, port: Number(port) });
    onTestFinished(() => void caller.destroy());
    let got = Buffer.alloc(0);
    caller.on("data", (data: Buffer) => (got = Buffer.concat([got, data])));
    const early = frame({ payload: Buffer.from("early") });
    const head =
      "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nX-Mine: yes\r\nUpgrade: websocket\r\n\r\n";
    caller.write(Buffer.concat([Buffer.from(head), early]));
    const said = (): string[] => frames(got).map(({ payload }) => payload.toString());
    await until("the first frame is back", () => said().includes("early"));
    expect(got.toString("latin1")).toContain("x-told: websocket upgrade yes\r\n");
    caller.write(frame({ payload: Buffer.alloc(1_000, "z") }));
    await until("the second frame is back", () => said()[1]?.length === 1_000);
    const ended = once(caller, "end");
    (owner as Socket | null)?.destroy();
    await ended;
    const last = frames(got).at(-1);
    expect([last?.opcode, last?.payload.readUInt16BE()]).toEqual([CLOSE, 1011]);
  },
);

verifies("peers.sockets", "an owner that refuses a WebSocket answers like any other", async () => {
  const { passedUrl } = await testHop(() => {}, {
    apiUpgrade: (_, socket) => {
      socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 7\r\nconnection: close\r\n\r\nnothing");
    },
  });
  const request = ask(passedUrl, "GET", { connection: "Upgrade", upgrade: "websocket" });
  const response = await answerOf(request);
  expect([response.statusCode, await text(response)]).toEqual([404, "nothing"]);
});

verifies(
  "peers.bytes",
  "messages of a stream pass as they come, and connections are used again",
  async () => {
    let say: ((text: string) => void) | null = null;
    const sockets = new Set<Socket>();
    const { passedUrl } = await testHop((request, response) => {
      sockets.add(request.socket);
      response.writeHead(200, ["content-type", "text/event-stream"]);
      response.flushHeaders();
      say = (message) => (message === "" ? response.end() : response.write(message));
    });
    const agent = new Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    for (let i = 0; i < 3; i++) {
      const response = await answerOf(httpRequest(passedUrl, { agent }));
      for (const message of ["data: 1\n\n", "data: 2\n\n"]) {
        const next = once(response, "data") as Promise<[Buffer]>;
        (say as ((text: string) => void) | null)?.(message);
        expect((await next)[0].toString()).toBe(message);
      }
      (say as ((text: string) => void) | null)?.("");
      await buffer(response);
    }
    expect(sockets.size).toBe(1);
  },
);

/** A caller's frame as a server would send it back. */
function unmasked(data: Buffer): Buffer {
  return Buffer.concat(frames(data).map(({ payload }) => frame({ payload, mask: null })));
}

/** The frames after the head of an answer, if there is one. */
function frames(data: Buffer): { readonly opcode: number; readonly payload: Buffer }[] {
  const found: { opcode: number; payload: Buffer }[] = [];
  const end = data.subarray(0, 4).toString() === "HTTP" ? data.indexOf("\r\n\r\n") + 4 : 0;
  let at = end;
  for (
    let head = readFrameHead(data, at);
    head && at + head.size + head.length <= data.length;
    head = readFrameHead(data, at)
  ) {
    found.push({ opcode: head.opcode, payload: payloadOf(data, at, head) });
    at += head.size + head.length;
  }
  return found;
}
