import { once } from "node:events";
import { expect } from "vitest";
import { WebSocket } from "ws";
import { appId } from "../../../src/model/names.ts";
import { DeployClient } from "../../support/deploy-client.ts";
import type { TestService } from "../../support/service.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import { openStream } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { zipOf } from "../../support/zip.ts";
import { verifies } from "../../verifies.ts";
import { ended, recordOf, submit } from "../../integration/async/site.ts";
import { Tail } from "../../integration/logs/site.ts";
import { pair } from "../../integration/nodes/pair.ts";

const MAIN = `
import time

def run(text):
    print("asked for", text[:20])
    return {"length": len(text), "text": text[:20]}

def count(to):
    for i in range(to):
        yield str(i)

def hold():
    print("holding")
    while True:
        time.sleep(0.01)
`;

const nodes = pair({ app: { main: MAIN }, talk: socketApp() });

const manage = async (on: TestService, place: string): Promise<{ status: number; json: unknown }> => {
  const { projectId, token } = on.service.owner;
  const headers = { authorization: `Bearer ${token}` };
  const url = `${on.service.baseUrl}/v2/projects/${projectId}/apps/${appId(projectId, "app")}${place}`;
  const response = await fetch(url, { headers });
  return { status: response.status, json: await response.json() };
};

verifies("cluster.through-other", "a call is answered, and its run is found at both nodes", async () => {
  const { owner, other } = await nodes.sides("app");
  const answer = await other.call("app", { text: "hello" });
  expect([answer.status, answer.json.result]).toEqual([200, { length: 5, text: "hello" }]);
  const id: string = answer.json.run_id;
  for (const node of [owner, other]) {
    await until("its record is stored", async () => (await node.ofRun("app", id)).status === 200);
    expect(await recordOf(node, "app", id)).toMatchObject({ id, status: "success" });
  }
});

verifies("cluster.through-other", "a body of some megabytes arrives whole", async () => {
  const { other } = await nodes.sides("app");
  const text = "0123456789".repeat(500_000);
  const { status, json } = await other.call("app", { text });
  expect([status, json.result.length]).toEqual([200, text.length]);
});

verifies("cluster.through-other", "a stream comes whole and in order", async () => {
  const { other } = await nodes.sides("app");
  const reader = await openStream(other, "app", { to: 500 }, { functionName: "count" }).ended();
  expect([reader.head?.status, reader.isWhole]).toEqual([200, true]);
  expect(reader.data).toEqual(Array.from({ length: 500 }, (_, n) => String(n)));
  reader.leave();
});

verifies("cluster.through-other", "a WebSocket carries messages both ways, and its close", async () => {
  const { other } = await nodes.sides("talk");
  const url = other.url("talk", "some/path").replace(/^http/, "ws");
  const client = new WebSocket(url, { headers: { authorization: `Bearer ${other.service.owner.token}` } });
  await once(client, "open");
  for (const message of ["hello", "x".repeat(300_000)]) {
    client.send(message);
    const [data] = (await once(client, "message")) as [Buffer];
    expect(data.toString()).toBe(message);
  }
  client.close(1000, "done");
  const [code, reason] = (await once(client, "close")) as [number, Buffer];
  expect([code, reason.toString()]).toEqual([1000, "done"]);
});

verifies("cluster.through-other", "an async run is accepted, followed and cancelled", async () => {
  const { owner, other } = await nodes.sides("app");
  const done = await submit(other, "app", { text: "later" });
  expect((await ended(other, "app", done)).result).toMatchObject({ text: "later" });
  const held = await submit(other, "app", {}, { functionName: "hold" });
  await until("it runs", async () => (await recordOf(other, "app", held)).status === "running");
  const cancelled = await other.call("app", "", { functionName: `runs/${held}/cancel` });
  expect(cancelled.status).toBe(202);
  for (const node of [owner, other])
    expect(await ended(node, "app", held)).toMatchObject({ status: "cancelled" });
});

verifies(
  "cluster.through-other",
  "what an app prints is in the log and in the tail of both nodes",
  async () => {
    const { owner, other } = await nodes.sides("app");
    const { projectId } = owner.service.owner;
    const tails = await Promise.all(
      [owner, other].map(async (node) => {
        const query = new URLSearchParams({
          projectID: projectId,
          token: node.service.owner.token,
          appID: appId(projectId, "app"),
        });
        const tail = new Tail(
          new WebSocket(`${node.service.baseUrl.replace("http", "ws")}/ws-logs?${query.toString()}`),
        );
        await tail.opened;
        return tail;
      }),
    );
    expect((await other.call("app", { text: "a line" })).status).toBe(200);
    for (const tail of tails) {
      await until("the line came", () => tail.logs.includes("asked for a line"));
      await tail.close();
    }
    for (const node of [owner, other]) {
      await until("it is in the log", async () => {
        const { status, json } = await manage(node, "/logs?pageSize=1000");
        return status === 200 && JSON.stringify(json).includes("asked for a line");
      });
    }
  },
);

verifies(
  "cluster.through-other",
  "a deploy through either node serves through both once it says success",
  async () => {
    const { owner, other } = await nodes.sides("app");
    const { projectId } = owner.service.owner;
    for (const [version, by] of [other, owner, other].entries()) {
      const { baseUrl, owner: account } = by.service;
      const client = new DeployClient({ baseUrl, projectId, token: account.token }, "changing");
      const main = `def run():\n    return ${version}\n`;
      const { status } = await client.deploy(await zipOf({ "main.py": main, "millrace.toml": "" }));
      expect(status).toBe("success");
      for (const node of [owner, other]) {
        const answer = await node.call("changing");
        expect([version, answer.status, answer.json.result]).toEqual([version, 200, version]);
      }
    }
  },
);

verifies(
  "cluster.through-other",
  "who may not use an app may not by way of another node either",
  async () => {
    const { owner, other } = await nodes.sides("app");
    const { store, tokens, owner: account } = owner.service;
    await store.projects.insert({ id: "p-stranger", name: "stranger", createdAt: 1 });
    const issue = async (projectId: string, role: "run" | "admin"): Promise<string> =>
      (await tokens.issue({ projectId, name: role, role, expiresAt: Date.now() + 3_600_000 })).token;
    const run = await submit(other, "app", { text: "mine" });
    await ended(owner, "app", run);
    const id = appId(account.projectId, "app");
    const answers = async (at: TestService, token: string | null): Promise<string[]> => {
      const { apiUrl, baseUrl } = at.service;
      const calls = ["run", "run?async=true", "count", `runs/${run}`, `runs/${run}/cancel`].map(
        (target) =>
          [
            target.startsWith("runs") && !target.endsWith("cancel") ? "GET" : "POST",
            `${apiUrl}/v4/${account.projectId}/app/${target}`,
          ] as const,
      );
      const managed = ["", "/logs", "/builds", "/secrets"].map(
        (place) => ["GET", `${baseUrl}/v2/projects/${account.projectId}/apps/${id}${place}`] as const,
      );
      const deleted = ["DELETE", `${baseUrl}/v2/projects/${account.projectId}/apps/${id}`] as const;
      return await Promise.all(
        [...calls, ...managed, deleted].map(async ([method, url]) => {
          const headers = {
            "content-type": "application/json",
            ...(token !== null && { authorization: `Bearer ${token}` }),
          };
          const response = await fetch(url, { method, headers, ...(method === "POST" && { body: "{}" }) });
          const { code } = (await response.json()) as { code?: string };
          return `${method} ${new URL(url).pathname} ${response.status} ${code}`;
        }),
      );
    };
    for (const token of [null, "no token", await issue("p-stranger", "admin")]) {
      const direct = await answers(owner, token);
      expect(await answers(other, token)).toEqual(direct);
      for (const answer of direct) expect(answer).toMatch(/ 40[134] /);
    }
  },
);
