import { expect } from "vitest";
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
