import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Writable } from "node:stream";
import { expect, onTestFinished } from "vitest";
import { testSettings } from "../../support/test-settings.ts";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { TestService } from "../../support/service.ts";
import { MODES, WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const SECRET = "caller-secret-4711";
const MAIN = `
import os, sys

def run(**arguments):
    print(dict(os.environ), sys.argv, arguments)
    return {"environment": dict(os.environ), "arguments": arguments}
`;

/** The files below a directory that hold a text. */
function filesWith(directory: string, text: string): string[] {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((f) => f.isFile());
  const paths = files.map(({ parentPath, name }) => path.join(parentPath, name));
  return paths.filter((file) => readFileSync(file).includes(text));
}

verifies(
  "webhook.caller-secret.sealed",
  "the caller's secret is sealed while its delivery is open, and reaches neither the app nor a log",
  async () => {
    const directory = mkdtempSync(path.join(tmpdir(), "millrace-test-"));
    const dataDir = path.join(directory, "data");
    let logged = "";
    const stream = new Writable({
      write: (line, _, done) => {
        logged += String(line);
        done();
      },
    });
    const flags = { dataDir, apiPort: 0, basePort: 0, webhookAllow: "127.0.0.0/8" };
    const settings = testSettings(flags);
    const service = await startService(settings, {
      log: createLog("trace", stream),
      onAppLog: ({ text }) => (logged += text),
    });
    onTestFinished(async () => {
      await service.stop();
      rmSync(directory, { recursive: true, force: true });
    });
    const test = new TestService(service, settings, directory, []);
    await test.deploy("hello", { main: MAIN });

    const target = await WebhookTarget.open(MODES.hang);
    const suffix = `?async=true&webhookEndpoint=${encodeURIComponent(target.url)}`;
    const answer = await test.call("hello", { seen: 1 }, { suffix, headers: { "x-webhook-secret": SECRET } });
    await target.has(1);
    const [received] = target.received;
    expect(received?.headers["x-cerebrium-webhook-signature"]).toMatch(/^v1,[0-9a-f]{64}$/);
    // The delivery is under way: this is when the secret is kept.
    const { id, sealedSecret } =
      (await service.store.deliveries.find({
        projectId: service.owner.projectId,
        id: answer.json.run_id,
      })) ?? {};
    expect(sealedSecret?.byteLength).toBeGreaterThan(SECRET.length);
    expect(filesWith(dataDir, id ?? "")).not.toEqual([]);
    expect(filesWith(dataDir, SECRET)).toEqual([]);
    expect(received?.body.toString()).toContain('"arguments":{"seen":1}');
    expect(received?.body.includes(SECRET)).toBe(false);
    expect(JSON.stringify(received?.headers)).not.toContain(SECRET);
    expect(logged).toContain("millrace is up");
    expect(logged).not.toContain(SECRET);
  },
);
