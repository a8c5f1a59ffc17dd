import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { REPOSITORY } from "../../support/source-files.ts";
import { serveApps } from "../../support/serve-apps.ts";
import { type Answer, type TestApp, testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const ATTACKS = readFileSync(path.join(REPOSITORY, "test/support/hostile/attacks.py"), "utf8");
const GOOD = "import os\ndef run(n):\n    return [n + 1, os.getpid()]\n";
const ONE = "[scaling]\nmax_replicas = 1\nresponse_grace_period = 20\n";

/** An app of this code, with the attacks at hand. */
function hostile(main: string, toml = ONE): TestApp {
  return { main: `from attacks import *\n${main}`, toml, files: { "attacks.py": ATTACKS } };
}

/** The neighbour of all that is hostile. What the service did not catch would fail this run: it is in its process. */
const shared = sharedService(
  { good: { main: GOOD, toml: "[scaling]\nmin_replicas = 1\n" } },
  { shutdownGrace: "0s" }, // What is hostile does not end by itself.
);

/** Deploys a hostile app beside the good one; gives a way to call it. */
async function attacker(app: TestApp): Promise<(functionName: string, body?: object) => Promise<Answer>> {
  const name = await shared().own(app);
  return async (functionName, body = {}) => await shared().call(name, body, { functionName });
}

let neighbour: number | null = null;

/** The neighbour answers, in the process that it had from the beginning. */
async function expectUnharmed(): Promise<void> {
  const { status, json } = await shared().call("good", { n: 1 });
  neighbour ??= json.result[1] as number;
  expect([status, json.result]).toEqual([200, [2, neighbour]]);
}

verifies(
  ["wire.fault.line", "wire.fault.alone"],
  "a line that is not JSON on a template's connection ends that template alone",
  async () => {
    const lines = [
      "not json",
      "{",
      "[]",
      '{"ready":1}',
      '{"exited":{"id":"r-nobody","code":0}}',
      "\\xff\\xfe",
    ];
    await expectUnharmed();
    for (const line of lines) {
      const call = await attacker(hostile(`template_connection().sendall(b'${line}\\n')\nrest()\n`));
      expect([line, (await call("run")).status]).toEqual([line, 503]);
    }
    await expectUnharmed();
  },
);

verifies(
  ["wire.order", "wire.fault.alone"],
  "a second STREAM, after the first chunk too, ends that replica alone",
  async () => {
    const main = `
def run():
    yield "one"
    send(frame(STREAM, call_id()))
    rest()

def twice():
    me = call_id()
    send(frame(STREAM, me) + frame(STREAM, me))
    rest()
`;
    const name = await shared().own(hostile(main));
    const response = await fetch(shared().url(name), {
      method: "POST",
      headers: {
        authorization: `Bearer ${shared().service.owner.token}`,
        "content-type": "application/json",
      },
      body: "{}",
    });
    // Both frames may have come before the head of the answer was sent.
    const text = await response.text().catch(() => "broken off");
    expect([200, 502]).toContain(response.status);
    expect(text).toContain(response.status === 200 ? "broken off" : "STREAM out of turn");
    const twice = await shared().call(name, {}, { functionName: "twice" });
    expect(twice.json.code).toBe("app_crashed");
    await expectUnharmed();
  },
);

verifies(
  ["wire.result", "wire.answered"],
  "a RESULT with a status that is none fails its run, and its caller is told",
  async () => {
    const main = "def run(status):\n    send(result(call_id(), b'1', status))\n    rest()\n";
    const call = await attacker(hostile(main));
    for (const status of [65_535, 1_000, 600, 199, 101, 100, 1]) {
      const answer = await call("run", { status });
      expect([status, answer.status, answer.json.code]).toEqual([status, 500, "app_error"]);
    }
    await expectUnharmed();
  },
);

verifies(
  "wire.result",
  "a RESULT or a chunk that is marked as JSON and is none is not passed on",
  async () => {
    const main = `
def run(text):
    send(result(call_id(), text.encode("latin-1")))
    rest()

def stream(text):
    me = call_id()
    send(frame(STREAM, me) + frame(CHUNK, me, b"\\x01" + text.encode("latin-1")))
    rest()
`;
    const call = await attacker(hostile(main));
    for (const text of ["NaN", "[1,Infinity]", '{"a":', "", '"half', "1 2", "\xff", '1,"x":2']) {
      for (const functionName of ["run", "stream"]) {
        const { status, json } = await call(functionName, { text });
        expect([text, functionName, status, json.code]).toEqual([text, functionName, 500, "result_not_json"]);
      }
    }
    await expectUnharmed();
  },
);

verifies(
  ["wire.fields", "wire.fields.cut"],
  "a FAILED frame that is too large ends its replica, and long texts are cut before they are kept",
  async () => {
    const main = `
def _failed(message):
    return json.dumps({"kind": "raised", "code": "app_error", "message": message, "traceback": message, "run_ms": 1}).encode()

def huge():
    send(frame(FAILED, call_id(), _failed("x" * (20 << 20))))
    rest()

def long():
    send(frame(FAILED, call_id(), _failed("x" * 400_000)))
    rest()
`;
    const call = await attacker(hostile(main));
    expect((await call("huge")).json.code).toBe("app_crashed");
    const long = await call("long");
    expect([long.status, long.json.code]).toEqual([500, "app_error"]);
    expect(long.json.message.length).toBeLessThan(9_000);
    expect(long.json.message).toContain("[millrace: cut");
    await expectUnharmed();
  },
);

verifies(
  "wire.limits",
  "a frame that claims more than its type may have ends its replica at its head",
  async () => {
    const main = `
def run(kind):
    send(frame(kind, call_id(), b"x" * 100, 1 << 30))
    rest()

def well():
    return True
`;
    const call = await attacker(hostile(main));
    for (const kind of [2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 32, 36, 255]) {
      const answer = await call("run", { kind });
      expect([kind, answer.status, answer.json.code]).toEqual([kind, 502, "app_crashed"]);
      // Else each start would wait longer than the one before.
      expect((await call("well")).status).toBe(200);
    }
    await expectUnharmed();
  },
);

verifies(
  "wire.order",
  "chunks beyond the credit end their replica, while its caller reads nothing",
  async () => {
    const main = `
def run():
    me = call_id()
    send(frame(STREAM, me))
    while True:
        send(frame(CHUNK, me, b"\\x00" + b"x" * 32000))
`;
    // As in production, in a process of its own.
    const served = await serveApps({ app: hostile(main), good: { main: GOOD } });
    const { body } = await fetch(`${served.url}/app/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${served.token}`, "content-type": "application/json" },
      body: "{}",
    });
    await served.command.printed(/a CHUNK beyond its credit/);
    expect((await served.call("good", "run", { n: 1 })).status).toBe(200);
    expect(served.command.stderr.match(/"millrace is up"/g)).toHaveLength(1);
    await body?.cancel().catch(() => undefined);
  },
);

verifies(
  "wire.start",
  "an app whose secrets no process can be started with cannot start, and nothing else",
  async () => {
    const service = await testService({
      app: { main: GOOD, toml: "[scaling]\nmin_replicas = 1\n" },
      good: { main: GOOD },
    });
    const { baseUrl, owner } = service.service;
    // Within the bounds of the API, and more than the kernel takes for one variable.
    const secrets = { LARGE: "€".repeat(60_000) };
    const path = `/v2/projects/${owner.projectId}/apps/${owner.projectId}-app/secrets`;
    await service.call("app", { n: 1 });
    const patched = await fetch(`${baseUrl}${path}`, {
      method: "PATCH",
      headers: { authorization: `Bearer ${owner.token}`, "content-type": "application/json" },
      body: JSON.stringify(secrets),
    });
    expect(patched.status).toBe(200);
    // What runs keeps what it was started with; what is started now cannot.
    const [replica] = service.apps.get("app")!.pool.replicas;
    replica!.kill();
    await until("the app cannot start", async () => (await service.call("app", { n: 1 })).status === 503);
    expect((await service.call("app", { n: 1 })).json.message).toContain("secrets are too large");
    expect((await service.call("good", { n: 1 })).json.result[0]).toBe(2);
  },
);
