import { X509Certificate, randomBytes } from "node:crypto";
import { connect as connectPlain } from "node:net";
import { connect, type ConnectionOptions, type TLSSocket } from "node:tls";
import { buffer } from "node:stream/consumers";
import { describe, expect, onTestFinished } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import { Seal } from "../../../src/kit/seal.ts";
import { AppError } from "../../../src/model/errors.ts";
import { type Authority, openAuthority } from "../../../src/nodes/authority.ts";
import { ask, PeerFailure } from "../../../src/nodes/talk.ts";
import { type FromPeer, PeerListener } from "../../../src/nodes/peer-listener.ts";
import { Peers } from "../../../src/nodes/peers.ts";
import { openStore } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { testAuthority, testHop, type TestNode, testNode } from "../../support/nodes/hop.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

describe.each(DATABASE_KINDS)("on %s", (kind) => {
  verifies(
    "peers.authority",
    "those who start at once end with one authority, which its master key opens",
    async () => {
      const database = await databases.fresh(kind);
      const seal = new Seal(randomBytes(32));
      const store = await openStore(database);
      onTestFinished(() => store.close());
      const open = async (by = seal): Promise<Authority> =>
        await openAuthority({ store, seal: by, clock: systemClock });
      const all = await Promise.all([open(), open(), open(), open()]);
      expect(new Set(all.map(({ certificate }) => certificate)).size).toBe(1);
      expect((await open()).certificate).toBe(all[0]?.certificate);
      await expect(open(new Seal(randomBytes(32)))).rejects.toThrow("unable to authenticate data");
      expect(await store.meta.get("authority")).not.toContain("PRIVATE");
      const [one, two] = [all[0]?.issue("one"), all[1]?.issue("one")];
      expect(one?.key).not.toBe(two?.key);
    },
  );
});

const REQUEST = "GET / HTTP/1.1\r\nx-millrace-for: api - 1.1 plain\r\nconnection: close\r\n\r\n";

/** What somebody gets for a good request, shown these papers. */
async function answerTo({ peer }: TestNode, options: ConnectionOptions): Promise<string> {
  const { port } = new URL(peer.url);
  const socket = connect({ host: "127.0.0.1", port: Number(port), rejectUnauthorized: false, ...options });
  // How it ends depends on which side is faster.
  socket.on("error", () => {});
  socket.on("secureConnect", () => socket.write(REQUEST));
  let got = "";
  socket.on("data", (data: Buffer) => (got += data.toString("latin1")));
  await new Promise((resolve) => socket.once("close", resolve));
  return got;
}

verifies("peers.strangers", "without a certificate of this authority there is no answer", async () => {
  let count = 0;
  const authority = await testAuthority();
  const node = await testNode(authority, {
    api: (_, response) => {
      count += 1;
      response.end("hello");
    },
  });
  const good = authority.issue("friend");
  const other = (await testAuthority()).issue("friend");
  const withGood = { cert: good.certificate, key: good.key };
  expect(await answerTo(node, {})).toBe("");
  expect(await answerTo(node, { cert: other.certificate, key: other.key })).toBe("");
  expect(await answerTo(node, { ...withGood, maxVersion: "TLSv1.2" })).toBe("");
  const plain = connectPlain(Number(new URL(node.peer.url).port), "127.0.0.1");
  plain.write(REQUEST);
  const got = await buffer(plain).catch(() => Buffer.alloc(0));
  expect(got.toString("latin1")).not.toContain("HTTP");
  expect(count).toBe(0);
  expect(await answerTo(node, withGood)).toContain("hello");
});

verifies("peers.strangers", "connections that never say who they are make room for others", async () => {
  const authority = await testAuthority();
  const node = await testNode(authority, { own: async () => "yes" });
  const port = Number(new URL(node.peer.url).port);
  const idle = Array.from({ length: 300 }, () => connectPlain(port, "127.0.0.1").on("error", () => {}));
  onTestFinished(() => idle.forEach((socket) => void socket.destroy()));
  await until("the first of them were closed", () => idle.filter(({ closed }) => closed).length >= 44);
  const friend = await testNode(authority);
  expect(await ask({ peers: friend.peers, clock: systemClock }, node.peer, "/nodes/x", {})).toBe("yes");
});

verifies("peers.strangers", "a flood from one address turns away nobody else", async () => {
  const authority = await testAuthority();
  const node = await testNode(authority, { own: async () => "yes" });
  const port = Number(new URL(node.peer.url).port);
  const open = (localAddress: string) =>
    connectPlain({ port, host: "127.0.0.1", localAddress }).on("error", () => {});
  const slow = open("127.0.0.1");
  await new Promise((resolve) => slow.once("connect", resolve));
  const flood = Array.from({ length: 300 }, () => open("127.0.0.2"));
  onTestFinished(() => [slow, ...flood].forEach((socket) => void socket.destroy()));
  await until("some of the flood were closed", () => flood.filter(({ closed }) => closed).length >= 45);
  const { certificate: cert, key } = authority.issue("friend");
  const known = connect({ socket: slow, rejectUnauthorized: false, cert, key });
  await new Promise((resolve, reject) => known.once("secureConnect", resolve).once("error", reject));
  known.destroy();
});

verifies(
  "peers.identity",
  "a node cannot pose as another, and a message without a purpose is none",
  async () => {
    const authority = await testAuthority();
    const node = await testNode(authority, { own: async () => "yes" });
    const friend = await testNode(authority);
    const parts = { peers: friend.peers, clock: systemClock };
    const posing = { id: "somebody-else", url: node.peer.url };
    await expect(ask(parts, posing, "/nodes/x", {})).rejects.toThrow("the connection to it ended");
    const { certificate: cert, key } = authority.issue("friend");
    const socket = connect({
      port: Number(new URL(node.peer.url).port),
      rejectUnauthorized: false,
      cert,
      key,
    });
    socket.write("GET / HTTP/1.1\r\nhost: x\r\nx-millrace-for: api 1.2.3.4 1.1 plain\r\n\r\n");
    expect((await buffer(socket)).length).toBe(0);
  },
);

verifies("peers.identity", "a node knows who passes a request on, and for whom", async () => {
  const seen: (FromPeer | null)[] = [];
  const { passedUrl, front } = await testHop((request, response, from) => {
    seen.push(from);
    response.end(String(request.headers["x-millrace-for"]));
  });
  const forged = { "x-millrace-for": "api 6.6.6.6 1.1 plain" };
  await fetch(passedUrl, { headers: forged });
  expect(seen[0]).toEqual({
    from: front.peer.id,
    purpose: "api",
    remote: "127.0.0.1",
    httpVersion: "1.1",
    isHeld: false,
    hostOf: null,
  });
});

verifies(
  "peers.identity",
  "further connections have a short handshake, and are known all the same",
  async () => {
    const authority = await testAuthority();
    const froms: string[] = [];
    const resumed: boolean[] = [];
    const node = await testNode(authority, {
      api: (request, response, { from }) => {
        froms.push(from);
        resumed.push((request.socket as TLSSocket).isSessionReused());
        response.shouldKeepAlive = false;
        response.end();
      },
    });
    const identity = authority.issue("front");
    const peers = new Peers(identity, systemClock);
    onTestFinished(() => peers.close());
    for (let i = 0; i < 3; i++) {
      const lost = Promise.withResolvers<void>();
      const connection = peers.open(node.peer, {
        onOpen: () =>
          void connection.socket.write("GET / HTTP/1.1\r\nx-millrace-for: api - 1.1 plain\r\n\r\n"),
        onData: () => {},
        onDrain: () => {},
        onLost: () => lost.resolve(),
      });
      await lost.promise;
    }
    expect(froms).toEqual(["front", "front", "front"]);
    expect(resumed.at(-1)).toBe(true);
  },
);

verifies(
  "peers.identity",
  "a short handshake is no way to pose as a node that was known before",
  async () => {
    const authority = await testAuthority();
    const [node, impostor] = [
      await testNode(authority, { own: async () => "yes" }),
      await testNode(authority),
    ];
    const friend = await testNode(authority);
    const parts = { peers: friend.peers, clock: systemClock };
    expect(await ask(parts, node.peer, "/nodes/x", {}, { isFresh: true })).toBe("yes");
    // Another node answers at its address, once without and then with what was kept of the connection before.
    const posing = { id: node.peer.id, url: impostor.peer.url };
    for (let i = 0; i < 3; i++)
      await expect(ask(parts, posing, "/nodes/x", {}, { isFresh: true })).rejects.toThrow(
        "the connection to it ended",
      );
    expect(await ask(parts, node.peer, "/nodes/x", {}, { isFresh: true })).toBe("yes");
  },
);

verifies("peers.own", "nodes ask each other, and no more than a little at a time", async () => {
  const authority = await testAuthority();
  const node = await testNode(authority, {
    own: async (from, path, value) => {
      if (path === "/nodes/no") throw new AppError("forbidden");
      if (path === "/nodes/bug") throw new Error("secret");
      return { from, path, value };
    },
  });
  const friend = await testNode(authority);
  const say = async (path: string, value: unknown): Promise<unknown> =>
    await ask({ peers: friend.peers, clock: systemClock }, node.peer, path, value);
  expect(await say("/nodes/hello", { name: "é" })).toEqual({
    from: friend.peer.id,
    path: "/nodes/hello",
    value: { name: "é" },
  });
  await expect(say("/nodes/no", 1)).rejects.toThrow('it answered 403: {"code":"forbidden"');
  await expect(say("/nodes/bug", 1)).rejects.toThrow('it answered 500: {"code":"internal"');
  await expect(say("/nodes/hello", "x".repeat(1024 * 1024))).rejects.toThrow("it answered 413");
  await expect(say("/nodes/hello", "x".repeat(1024 * 1024 - 2))).resolves.toBeDefined();
  friend.peers.forget(node.peer.id);
  await node.listener.close();
  await expect(say("/nodes/hello", 1)).rejects.toThrow(PeerFailure);
});

verifies(
  "peers.authority",
  "certificates count from long ago: clocks of nodes may be days apart",
  async () => {
    const { certificate, authority } = (await testAuthority()).issue("friend");
    for (const each of [certificate, authority])
      expect(new X509Certificate(each).validFromDate).toEqual(new Date("2020-01-01T00:00:00Z"));
  },
);

verifies("peers.authority", "a port that is taken is told with the settings that name it", async () => {
  const authority = await testAuthority();
  const { listener } = await testNode(authority);
  const options = { identity: authority.issue("late"), host: "127.0.0.1", log: createLog("silent") };
  await expect(PeerListener.listen({ ...options, port: listener.port })).rejects.toThrow(
    /EADDRINUSE.*MILLRACE_NODE_URL/,
  );
});
