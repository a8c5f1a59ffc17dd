import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { expect, onTestFinished } from "vitest";
import { socketApp } from "../../support/servers/socket-app.ts";
import { testAuthority, testNode } from "../../support/nodes/hop.ts";
import { twoServices } from "../../support/nodes/two-services.ts";
import { verifies } from "../../verifies.ts";

const MAIN = "def length(text: str):\n    return len(text)\n";

/** A service that nobody can reach as a node, itself included, and which believes that its app is at a dead node. */
async function believer() {
  const { front } = await twoServices({});
  const dead = await testNode(await testAuthority());
  await Promise.all([dead.listener.close(), front.node.listener.close()]);
  front.beliefs.settle = async () => ({ kind: "there", peer: dead.peer });
  const { projectId, token } = front.on.service.owner;
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return { ...front, projectId, headers };
}

verifies(
  "peers.here",
  "a call whose app turns out to be here is answered here, with the body that was read",
  async () => {
    const { on, beliefs, headers } = await believer();
    for (const [app, chars] of [
      ["small", 3],
      // The largest that is read before it is known where it goes.
      ["large", 64 * 1024 - '{"text":""}'.length],
    ] as const) {
      beliefs.later = async () => {
        await on.deploy(app, { main: MAIN });
        return { kind: "here" };
      };
      const body = JSON.stringify({ text: "x".repeat(chars) });
      const response = await fetch(on.url(app, "length"), { method: "POST", headers, body });
      expect([response.status, await response.json()]).toMatchObject([200, { result: chars }]);
    }
  },
);

verifies("peers.here", "so is a WebSocket, with what came after its handshake", async () => {
  const { on, beliefs, headers } = await believer();
  beliefs.later = async () => {
    await on.deploy("talk", socketApp());
    return { kind: "here" };
  };
  const { hostname, port, pathname } = new URL(on.url("talk", "echo"));
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  const key = randomBytes(16).toString("base64");
  const head =
    `GET ${pathname} HTTP/1.1\r\nhost: here\r\nauthorization: ${headers.authorization}\r\nconnection: upgrade\r\n` +
    `upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`;
  // A masked text frame, by a mask of zeros: the caller does not wait for the answer to its handshake.
  socket.write(head);
  socket.write(Buffer.concat([Buffer.from([0x81, 0x85, 0, 0, 0, 0]), Buffer.from("hello")]));
  let told = "";
  for await (const piece of socket) {
    told += String(piece);
    if (told.includes("hello")) break;
  }
  expect(told).toMatch(/^HTTP\/1\.1 101 /);
});

verifies("peers.here", "so is a request of the management API", async () => {
  const { on, beliefs, headers, projectId } = await believer();
  beliefs.later = async () => {
    await on.deploy("app", { main: MAIN });
    return { kind: "here" };
  };
  const url = `${on.service.baseUrl}/v2/projects/${projectId}/apps/${projectId}-app`;
  const body = JSON.stringify({ maxReplicaCount: 3 });
  const response = await fetch(url, { method: "PATCH", headers, body });
  expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("3")]);
});
