import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { REPOSITORY } from "../../support/source-files.ts";
import { serveApps } from "../../support/serve-apps.ts";
import type { ServedApps } from "../../support/serve-apps.ts";
import { testService } from "../../support/service.ts";
import type { TestApp } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const ATTACKS = readFileSync(path.join(REPOSITORY, "test/support/hostile/attacks.py"), "utf8");
const GOOD = "def run(n):\n    return n + 1\n";
const ONE = "[scaling]\nmax_replicas = 1\nresponse_grace_period = 20\n";

/** An app of this code, with the attacks at hand. */
function hostile(main: string, toml = ONE): TestApp {
  return { main: `from attacks import *\n${main}`, toml, files: { "attacks.py": ATTACKS } };
}

/** A service of its own with a good app beside the hostile ones. */
async function attacked(apps: Record<string, TestApp>): Promise<ServedApps> {
  return await serveApps({ ...apps, good: { main: GOOD } });
}

/** The service has not ended in between, and the neighbour is answered. */
async function expectUnharmed(served: ServedApps): Promise<void> {
  expect(await served.call("good", "run", { n: 1 })).toMatchObject({ status: 200, json: { result: 2 } });
  expect(served.command.stderr.match(/"millrace is up"/g)).toHaveLength(1);
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
    const apps: Record<string, TestApp> = {};
    for (const [i, line] of lines.entries()) {
      apps[`template-${i}`] = hostile(`template_connection().sendall(b'${line}\\n')\nrest()\n`);
    }
    const served = await attacked(apps);
    for (const name of Object.keys(apps)) {
      const answer = await served.call(name, "run", {});
      expect([name, answer.status]).toEqual([name, 503]);
    }
    await expectUnharmed(served);
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
    const served = await attacked({ app: hostile(main) });
    const response = await fetch(`${served.url}/app/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${served.token}`, "content-type": "application/json" },
      body: "{}",
    });
    // Both frames may have come before the head of the answer was sent.
    const text = await response.text().catch(() => "broken off");
    expect([200, 502]).toContain(response.status);
    expect(text).toContain(response.status === 200 ? "broken off" : "STREAM out of turn");
    expect((await served.call("app", "twice", {})).json.code).toBe("app_crashed");
    await expectUnharmed(served);
  },
);

verifies(
  ["wire.result.status", "wire.answered"],
  "a RESULT with a status that is none fails its run, and its caller is told",
  async () => {
    const main = "def run(status):\n    send(result(call_id(), b'1', status))\n    rest()\n";
    const served = await attacked({ app: hostile(main) });
    for (const status of [65_535, 1_000, 600, 199, 101, 100, 1]) {
      const answer = await served.call("app", "run", { status });
      expect([status, answer.status, answer.json.code]).toEqual([status, 500, "app_error"]);
    }
    await expectUnharmed(served);
  },
);

verifies(
  "wire.result.json",
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
    const served = await attacked({ app: hostile(main) });
    for (const text of ["NaN", "[1,Infinity]", '{"a":', "", '"half', "1 2", "\xff", '1,"x":2']) {
      for (const functionName of ["run", "stream"]) {
        const { status, json } = await served.call("app", functionName, { text });
        expect([text, functionName, status, json.code]).toEqual([text, functionName, 500, "result_not_json"]);
      }
    }
    await expectUnharmed(served);
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
    const served = await attacked({ app: hostile(main) });
    expect((await served.call("app", "huge", {})).json.code).toBe("app_crashed");
    const long = await served.call("app", "long", {});
    expect([long.status, long.json.code]).toEqual([500, "app_error"]);
    expect(long.json.message.length).toBeLessThan(9_000);
    expect(long.json.message).toContain("[millrace: cut");
    await expectUnharmed(served);
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
    const served = await attacked({ app: hostile(main) });
    for (const kind of [2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 32, 36, 255]) {
      const answer = await served.call("app", "run", { kind });
      expect([kind, answer.status, answer.json.code]).toEqual([kind, 502, "app_crashed"]);
      // Else each start would wait longer than the one before.
      expect((await served.call("app", "well", {})).status).toBe(200);
    }
    await expectUnharmed(served);
  },
);

verifies(
  "wire.order.credit",
  "chunks beyond the credit end their replica, while its caller reads nothing",
  async () => {
    const main = `
def run():
    me = call_id()
    send(frame(STREAM, me))
    while True:
        send(frame(CHUNK, me, b"\\x00" + b"x" * 32000))
`;
    const served = await attacked({ app: hostile(main) });
    const { body } = await fetch(`${served.url}/app/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${served.token}`, "content-type": "application/json" },
      body: "{}",
    });
    await served.command.printed(/a CHUNK beyond its credit/);
    await expectUnharmed(served);
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
    expect((await service.call("good", { n: 1 })).json.result).toBe(2);
  },
);
