import { expect } from "vitest";
import { FAR_END } from "../../../src/gateway/events/feed.ts";
import { Cluster } from "../../support/cluster/cluster.ts";
import type { ClusterNode } from "../../support/cluster/node.ts";
import { StreamReader } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import time

def count(run_id):
    for n in range(1, 41):
        yield "m%d" % n
    while True:
        time.sleep(1)
`;

verifies(
  "peers.events-lost",
  "readers of a stream at another node are told when its node is killed, and then how the run ended",
  async () => {
    const cluster = await Cluster.start(2);
    await cluster.deploy("app", { "main.py": MAIN, "millrace.toml": "[scaling]\nmin_replicas = 1\n" });
    await cluster.untilSettled();
    const owner = (await cluster.ownerOf("app"))!;
    const front = cluster.nodes.find((node) => node !== owner) as ClusterNode;
    const { token } = cluster;
    const read = (path: string, headers: Record<string, string> = {}) => {
      const isCall = path === "count";
      const url = cluster.url(front, "app", path);
      return new StreamReader({
        url,
        token,
        headers,
        body: isCall ? "{}" : "",
        method: isCall ? "POST" : "GET",
      });
    };
    const call = read("count", { "x-disconnect": "continue" });
    await call.hasMessages(40);
    const { runId } = call;
    const readers = [
      call,
      read(`runs/${runId}/events`),
      read(`runs/${runId}/events`, { "accept-encoding": "gzip" }),
    ];
    for (const reader of readers) await reader.hasMessages(40);
    await owner.kill();
    for (const reader of readers) {
      await reader.ended();
      const last = reader.messages.at(-1);
      expect([reader.isWhole, reader.messages.length, last?.event]).toEqual([false, 41, "error"]);
      expect(JSON.parse(last?.data ?? "")).toMatchObject({ code: "node_lost", request_id: reader.runId });
    }
    // The other node finds out what became of the run.
    await until("the run is ended", async () => {
      const response = await fetch(cluster.url(front, "app", `runs/${runId}`), {
        headers: { authorization: `Bearer ${token}` },
      });
      return ((await response.json()) as { status: string }).status === "failure";
    });
    for (const after of [40, 41]) {
      const reader = await read(`runs/${runId}/events`, { "last-event-id": String(after) }).ended();
      expect(reader.end).toMatchObject({ id: FAR_END, record: { error: { code: "interrupted" } } });
    }
    await front.stop();
  },
);
