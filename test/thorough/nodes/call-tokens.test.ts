import { once } from "node:events";
import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { WebSocket } from "ws";
import { appId } from "../../../src/model/names.ts";
import { account, callAccount, userToken } from "../../support/call-tokens.ts";
import type { TestService } from "../../support/service.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import { openStream, type StreamReader } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { pair } from "../../integration/nodes/pair.ts";

const MAIN = `
import time

def run(text=""):
    return text

def forever():
    while True:
        yield "on"
        time.sleep(0.01)

def full():
    while True:
        yield "x" * 100_000

def hold():
    while True:
        time.sleep(0.01)
`;

const WIDE = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 32\n";
const nodes = pair({ app: { main: MAIN, toml: WIDE }, talk: socketApp(WIDE) });
const APPS = ["app", "talk"];

const follow = (on: TestService, runId: string, token: string): StreamReader =>
  openStream(on, "app", {}, { functionName: `runs/${runId}/events`, method: "GET", token });

verifies(
  ["call.own-runs", "call.own-keys"],
  "whichever node is asked, a run is its caller's alone, and so is a key",
  async () => {
    const { owner, other } = await nodes.sides("app");
    // Made at one node, good at both.
    const page = await callAccount(other, { apps: APPS });
    const [ada, grace] = [await userToken(other, page, "ada"), await userToken(owner, page, "grace")];
    for (const at of [owner, other]) {
      const live = openStream(at, "app", {}, { functionName: "forever", token: ada });
      await live.hasMessages(1);
      const held = await at.call("app", {}, { functionName: "hold", token: ada, suffix: "?async=true" });
      const done = await at.call("app", { text: "mine" }, { token: ada });
      const runs = [live.runId, held.json.run_id as string, done.json.run_id as string];
      for (const [index, id] of runs.entries()) {
        for (const asked of [owner, other]) {
          for (const stranger of [grace, page.token]) {
            for (const action of ["", "input", "result", "events", "cancel"]) {
              const method = action === "cancel" ? "POST" : "GET";
              const waits = { prefer: "wait=600" };
              for (const headers of action === "result" ? [{}, waits] : [{}]) {
                const { status } = await asked.ofRun("app", id, action, { token: stranger, method, headers });
                expect([index, action, status]).toEqual([index, action, 404]);
              }
            }
          }
        }
      }
      for (const asked of [owner, other]) {
        const reader = follow(asked, live.runId, ada);
        await reader.hasMessages(1);
        reader.leave();
        await until("its record is stored", async () => {
          const { status, json } = await asked.ofRun("app", runs[2]!, "", { token: ada });
          return status === 200 && json.user === "ada" && json.accountId === page.accountId;
        });
      }
      // Through the node that does not carry it out.
      const cancelled = await other.ofRun("app", runs[1]!, "cancel", { token: ada, method: "POST" });
      expect(cancelled.status).toBe(202);
      live.leave();
    }
    const headers = { "idempotency-key": "one" };
    const made = new Map<string, string>();
    for (const at of [owner, other]) {
      for (const token of [ada, grace, page.token]) {
        const { json } = await at.call("app", { text: token }, { token, headers });
        expect(json.result).toBe(token);
        expect(json.run_id).toBe(made.get(token) ?? json.run_id);
        made.set(token, json.run_id);
      }
    }
    expect(new Set(made.values()).size).toBe(3);
  },
);

verifies(
  "revoked.soon",
  "whichever node revokes the account, everything open at both is closed, also what passes through one",
  async () => {
    const { projectId } = nodes.first.service.owner;
    const sides = [await nodes.sides("app"), await nodes.sides("talk")];
    for (const by of [nodes.first, nodes.second]) {
      const page = await callAccount(by, { apps: APPS });
      const ada = await userToken(by, page, "ada");
      const keeper = await account(by, "deploy");
      const streams: StreamReader[] = [];
      const sockets: Promise<unknown>[] = [];
      for (const at of [sides[0]!.owner, sides[0]!.other]) {
        for (const token of [ada, page.token]) {
          const live = openStream(at, "app", {}, { functionName: "forever", token });
          await live.hasMessages(1);
          const reader = follow(at === sides[0]!.owner ? sides[0]!.other : at, live.runId, token);
          await reader.hasMessages(1);
          streams.push(live, reader);
        }
      }
      const open = async (url: string, token: string): Promise<void> => {
        const client = new WebSocket(url.replace("http", "ws"), {
          headers: { authorization: `Bearer ${token}` },
        });
        await once(client, "open");
        sockets.push(once(client, "close").then(([code]: unknown[]) => code));
      };
      const logs = `/ws-logs?${new URLSearchParams({ projectID: projectId, appID: appId(projectId, "app") }).toString()}`;
      for (const at of [sides[1]!.owner, sides[1]!.other]) {
        await open(at.url("talk", "echo"), ada);
        await open(`${at.service.baseUrl}${logs}`, keeper.token);
      }
      for (const { accountId } of [page, keeper]) await by.service.tokens.revoke(projectId, accountId);
      for (const stream of streams) {
        await stream.ended();
        await until("it is closed", () => stream.isClosed);
        expect([stream.isWhole, stream.messages.at(-1)?.event]).toEqual([false, "error"]);
        expect(stream.messages.at(-1)?.data).toContain('"unauthorized"');
      }
      expect(await Promise.all(sockets)).toEqual(sockets.map(() => 1008));
    }
  },
);

type Tcp = { readonly from: number; readonly to: number; readonly isOpen: boolean; readonly unread: number };

/** The TCP connections of this machine, each from both its sides. */
function connections(): Tcp[] {
  const line = /:([0-9A-F]{4}) [0-9A-F]{8}:([0-9A-F]{4}) (\w\w) [0-9A-F]{8}:([0-9A-F]{8})/g;
  const hex = (text = ""): number => Number.parseInt(text, 16);
  return [...readFileSync("/proc/net/tcp", "utf8").matchAll(line)].map(([, from, to, state, unread]) => {
    return { from: hex(from), to: hex(to), isOpen: state === "01", unread: hex(unread) };
  });
}

verifies("revoked.streams", "a stream that is not read is closed through the other node too", async () => {
  const { projectId } = nodes.first.service.owner;
  const { other } = await nodes.sides("app");
  const page = await callAccount(other, { apps: APPS });
  const reader = openStream(other, "app", {}, { functionName: "full", token: page.token });
  await reader.hasMessages(1);
  reader.socket.pause();
  const { localPort: port } = reader.socket;
  const served = Number(new URL(other.service.apiUrl).port);
  const isOpen = (): boolean =>
    connections().some((each) => each.from === served && each.to === port && each.isOpen);
  await until("the other node takes nothing either", () =>
    connections().some((each) => each.from !== port && each.unread > 256 * 1024),
  );
  expect(isOpen()).toBe(true);
  await other.service.tokens.revoke(projectId, page.accountId);
  await until("its connection is closed", () => !isOpen());
  reader.leave();
});
