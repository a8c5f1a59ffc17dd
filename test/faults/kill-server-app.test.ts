import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { KillableService } from "../support/killable-service.ts";
import { serverApp } from "../support/servers/server-app.ts";
import { until } from "../support/until.ts";
import { WebhookTarget } from "../support/webhook-target.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();

/** Leaves a file for each path that it was asked for, and answers when there is one called `go`. */
const main = `import os, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        folder = os.environ["PERSISTENT_STORAGE"]
        open(folder + self.path, "w").close()
        while not os.path.exists(folder + "/go"):
            time.sleep(0.02)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"[1]")

ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;

verifies(
  "servers.killed",
  "kill -9 of the service loses no async run, and a webhook is told of a call that was lost",
  async () => {
    const app = serverApp(
      {
        runtime: 'entrypoint = ["python", "main.py"]',
        toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 2\n",
      },
      main,
    );
    const env = { MILLRACE_WEBHOOK_ALLOW: "127.0.0.0/8" };
    const service = await KillableService.deploy(await databases.fresh("sqlite"), app, env);
    const target = await WebhookTarget.open();
    const hook = (name: string): string => `webhookEndpoint=${encodeURIComponent(`${target.url}/${name}`)}`;
    const inStorage = (name: string): string => path.join(service.storageDir, name);
    await service.start();
    const submit = async (functionName: string, query: string): Promise<string> => {
      const { status, json } = await service.post({ n: 1 }, { functionName, query: `?async=true${query}` });
      expect(status).toBe(202);
      return String(json.run_id);
    };
    const running = await submit("running", `&${hook("running")}`);
    const waitedFor = service.post({}, { functionName: "waited-for", query: `?${hook("waited-for")}` }).then(
      () => "answered",
      () => "cut",
    );
    await until("both are with the server", () =>
      ["running", "waited-for"].every((name) => existsSync(inStorage(name))),
    );
    const queued = await submit("queued", "");
    await service.kill();
    expect(await waitedFor).toBe("cut");
    await service.start();
    writeFileSync(inStorage("go"), "");
    for (const id of [running, queued])
      expect(await service.ended(id)).toMatchObject({ status: "success", statusCode: 200, result: [1] });
    await until("both webhooks are told", () => target.received.length === 2);
    const told = new Map(target.received.map(({ path: name, body }) => [name, body.toString()]));
    expect(told.get("/running")).toBe("[1]");
    expect(JSON.parse(told.get("/waited-for") ?? "")).toMatchObject({ code: "interrupted" });
    await service.stop();
  },
);
