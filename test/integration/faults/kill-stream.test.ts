import { expect } from "vitest";
import { WITHOUT_WALLS, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { serveApps } from "../../support/serve-apps.ts";
import { StreamReader, openStream } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import asyncio
import os

async def run():
    while True:
        yield os.getpid()
        await asyncio.sleep(0.02)

async def plain():
    return os.getpid()
`;

verifies(
  ["stream.late-exception", "run-record.stream-failure"],
  "kill -9 of a replica under its streams ends each with an error message, and their records say 502",
  async () => {
    const toml = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";
    const service = await testService({ app: { main: MAIN, toml } }, WITHOUT_WALLS);
    const readers = [{}, { "accept-encoding": "gzip" }, {}, {}].map((headers) =>
      openStream(service, "app", {}, { headers }),
    );
    for (const reader of readers) await reader.hasMessages(2);
    process.kill(Number(readers[0]?.data[0]), "SIGKILL");
    for (const reader of readers) {
      await reader.ended();
      const last = reader.messages.at(-1);
      expect([reader.head?.status, reader.isWhole, last?.event]).toEqual([200, false, "error"]);
      expect(JSON.parse(last?.data ?? "")).toMatchObject({
        code: "app_crashed",
        message: expect.stringContaining("killed by SIGKILL") as string,
      });
    }
    expect(readers[1]?.hasMember).toBe(true);
    await service.service.settle();
    const appNumber = service.apps.get("app")?.app.number ?? 0;
    for (const { runId } of readers) {
      const run = await service.service.store.runs.find({ appNumber, id: runId });
      expect(run).toMatchObject({ state: "failure", statusCode: 502, errorCode: "app_crashed" });
    }
    // Another replica takes its place.
    expect((await service.call("app", {}, { functionName: "plain" })).status).toBe(200);
  },
);

verifies(
  "stream.late-exception",
  "kill -9 of the service breaks its streams off: nobody takes them for whole answers",
  async () => {
    const served = await serveApps({ app: { main: MAIN } }, { MILLRACE_ISOLATION: "none" });
    const reader = new StreamReader({ url: `${served.url}/app/run`, token: served.token, body: "{}" });
    await reader.hasMessages(2);
    process.kill(served.command.pid, "SIGKILL");
    await until("the connection is closed", () => reader.isClosed);
    expect(reader.isWhole).toBe(false);
  },
);
