import { once } from "node:events";
import { connect } from "node:net";
import { expect } from "vitest";
import { readFrameHead } from "../../../src/kit/websocket/lane.ts";
import { sharedService } from "../../support/shared-service.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import { SOCKET_CASES, type SocketCase } from "../../support/socket-cases.ts";
import { frame } from "../../support/socket-frames.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const site = sharedService({
  talk: socketApp("[scaling]\nmax_replicas = 1\nreplica_concurrency = 100\n"),
});

const HEAD_END = "\r\n\r\n";
/** What we say to a caller whose app has ended without a word. */
const APP_GONE = 1011;
const AT_ONCE = 20;

type Way = { readonly port: number; readonly path: string; readonly token: string | null };

/** What both ends saw of a case. */
type Seen = { readonly client: string; readonly app: unknown };

/** Plays a case: what the client got, as hex, until the connection was over. */
async function play({ pieces, ends = false }: SocketCase, id: string, way: Way): Promise<string> {
  const socket = connect({ port: way.port, host: "127.0.0.1", allowHalfOpen: true });
  socket.on("error", () => {});
  const got: Buffer[] = [];
  socket.on("data", (data: Buffer) => got.push(data));
  const isOpen = (): boolean => Buffer.concat(got).includes(HEAD_END);
  const ended = Promise.race([once(socket, "end"), once(socket, "close")]);
  socket.write(
    [
      `GET ${way.path}/echo?id=${id} HTTP/1.1`,
      "Host: x",
      ...(way.token === null ? [] : [`Authorization: Bearer ${way.token}`]),
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
      HEAD_END,
    ]
      .join("\r\n")
      .replace(`\r\n${HEAD_END}`, HEAD_END),
  );
  await until("the handshake is over", isOpen);
  for (const piece of pieces) {
    if (socket.destroyed) break;
    socket.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (ends) socket.end();
  // Of a connection that still works: one message more, and a close.
  else
    socket.write(
      Buffer.concat([
        frame({ payload: Buffer.from("the end") }),
        frame({ opcode: 8, payload: Buffer.from([3, 232]) }),
      ]),
    );
  await ended;
  socket.destroy();
  const all = Buffer.concat(got);
  return all.subarray(all.indexOf(HEAD_END) + HEAD_END.length).toString("hex");
}

/** What the app told of a connection, once that was over. */
async function told(id: string): Promise<unknown> {
  const read = async () =>
    (await site().call("talk", {}, { functionName: "", suffix: `?id=${id}` })).json as unknown[];
  await until("the app has seen its end", async () => JSON.stringify(await read()).includes('"close"'));
  return await read();
}

/** Whether a client got what it would have got without us; a close frame of ours may stand where the app said nothing. */
function isSame(proxied: string, direct: string): boolean {
  if (proxied === direct) return true;
  const rest = proxied.startsWith(direct)
    ? Buffer.from(proxied.slice(direct.length), "hex")
    : Buffer.alloc(0);
  const head = readFrameHead(rest, 0);
  return head?.opcode === 8 && rest.readUInt16BE(head.size) === APP_GONE;
}

verifies(
  "servers.sockets.frames",
  `of ${SOCKET_CASES.length} raw cases both ends see the same with the service in between as without it`,
  async () => {
    expect(SOCKET_CASES.length).toBeGreaterThanOrEqual(200);
    const { json: port } = await site().call("talk", {}, { functionName: "port" });
    const { owner, apiUrl } = site().service;
    const direct: Way = { port: Number(port), path: "", token: null };
    const proxied: Way = {
      port: Number(new URL(apiUrl).port),
      path: `/v4/${owner.projectId}/talk`,
      token: owner.token,
    };
    const see = async (each: SocketCase, id: string, way: Way): Promise<Seen> => {
      const client = await play(each, id, way);
      return { client, app: await told(id) };
    };
    const compare = async (each: SocketCase, index: number): Promise<void> => {
      const [without, behind] = await Promise.all([
        see(each, `d${index}`, direct),
        see(each, `p${index}`, proxied),
      ]);
      expect([each.name, behind.app]).toEqual([each.name, without.app]);
      expect([each.name, isSame(behind.client, without.client), behind.client]).toEqual([
        each.name,
        true,
        behind.client,
      ]);
    };
    for (let at = 0; at < SOCKET_CASES.length; at += AT_ONCE)
      await Promise.all(SOCKET_CASES.slice(at, at + AT_ONCE).map((each, index) => compare(each, at + index)));
  },
);
