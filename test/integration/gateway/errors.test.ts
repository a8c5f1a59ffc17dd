import { describe, expect } from "vitest";
import { ERRORS } from "../../../src/model/errors.ts";
import { until } from "../../support/until.ts";
import { type Answer, testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import resource
import threading
import traceback

class Sad(Exception):
    pass

def run(text=""):
    inner(text)

def inner(text):
    raise Sad(text)

def printed(text=""):
    try:
        inner(text)
    except Sad:
        traceback.print_exc()
    thread = threading.Thread(target=inner, args=(text + " in a thread",))
    thread.start()
    thread.join()
    inner(text + " at last")

def wordless():
    raise KeyboardInterrupt

def big(length):
    return "x" * length

def hungry():
    used = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, used[1]))
    try:
        return len(bytearray(16 << 30))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, used)
`;

const service = sharedService({ app: { main: MAIN, toml: "[limits]\nmax_result = 1024\n" } });

function call(functionName: string, body: object = {}): Promise<Answer> {
  return service().call("app", body, { functionName });
}

/** What every error has to be, whatever it is about. */
function expectError({ status, headers, json, text }: Answer): void {
  const { message, code, error, request_id: id, details, ...others } = json;
  expect(others).toEqual({});
  expect(Object.keys(json as object).slice(0, 4)).toEqual(["message", "code", "request_id", "error"]);
  const { type, status: listed } = ERRORS[code as keyof typeof ERRORS];
  expect([listed, error]).toEqual([status, { message, code, type }]);
  expect(id).toBe(headers.get("x-request-id"));
  expect(headers.get("content-type")).toBe("application/json");
  // One line of printable text: nothing in it can end a line of a log or a header.
  expect(text).not.toMatch(/\p{Control}/u);
  if (details !== undefined) expect(Array.isArray(details)).toBe(true);
}

verifies(
  "errors.body",
  "every kind of error has the same body, and its code and status are in the catalogue",
  async () => {
    const answers = [
      await service().call("app", {}, { token: null }),
      await service().call("app", {}, { token: "bad" }),
      await service().call("nothing"),
      await call("nothing"),
      await call("big", { other: 1 }),
      await call("run", { text: 'a"\n\u0000\u2028é' }),
      await call("big", { length: 2000 }),
      await service().call("app", "{"),
      await service().call("app", {}, { headers: { "content-type": "text/plain" } }),
      await service().call("app", {}, { method: "PUT" }),
      await service().call("app", {}, { suffix: "?async=maybe" }),
      await service().call("app", {}, { suffix: "/" }),
    ];
    for (const answer of answers) expectError(answer);
    expect(answers.map(({ status }) => status)).toEqual([
      401, 401, 404, 404, 422, 500, 500, 400, 415, 405, 400, 404,
    ]);
  },
);

describe("an exception in user code", () => {
  verifies(
    ["errors.app-error", "errors.app-error.no-retry"],
    "is 500 app_error with `Type: text`, not to be tried again",
    async () => {
      const answer = await call("run", { text: "no such model" });
      expectError(answer);
      expect([answer.status, answer.json.code, answer.json.message]).toEqual([
        500,
        "app_error",
        "Sad: no such model",
      ]);
      expect(answer.headers.get("x-should-retry")).toBe("false");
      expect((await call("run")).json.message).toBe("Sad");
      expect((await call("wordless")).json).toMatchObject({
        code: "app_error",
        message: "KeyboardInterrupt",
      });
    },
  );

  verifies("errors.app-error.log", "leaves its traceback in the run's log", async () => {
    const { json } = await call("run", { text: "for the log" });
    const lines = () =>
      service()
        .logs.filter(({ runId }) => runId === json.request_id)
        .map(({ text }) => text);
    await until("the traceback is logged", () => lines().at(-1) === "main.Sad: for the log");
    expect(lines()[0]).toBe("Traceback (most recent call last):");
    expect(lines().join("\n")).toContain("in inner");
  });

  verifies(
    "errors.app-error.names",
    "a traceback names main.py, in the record and the log, also one that the app or its thread printed",
    async () => {
      const { json } = await call("printed", { text: "no" });
      // What a thread of the app prints has no run.
      const logged = () => service().logs.filter(({ text }) => / line \d+, in inner$/.test(text));
      await until("all of it is logged", () => logged().length >= 3);
      const lines = service().logs.filter(
        ({ text }) => text.includes("File ") && !text.includes("threading.py"),
      );
      expect(lines.filter(({ text }) => !text.startsWith('  File "main.py", line '))).toEqual([]);
      await service().service.settle();
      const appNumber = service().apps.get("app")?.app.number ?? 0;
      const run = await service().service.store.runs.find({ appNumber, id: json.request_id as string });
      const files = [...(run?.errorTraceback ?? "").matchAll(/File "([^"]*)"/g)].map(([, file]) => file);
      expect(files).toEqual(["main.py", "main.py"]);
    },
  );

  verifies(
    "errors.app-error.record",
    "leaves its traceback with the run's record, and its answer has none",
    async () => {
      const { json, text } = await call("run", { text: "for the record" });
      await service().service.settle();
      const appNumber = service().apps.get("app")?.app.number ?? 0;
      const run = await service().service.store.runs.find({ appNumber, id: json.request_id as string });
      expect(run).toMatchObject({
        state: "failure",
        statusCode: 500,
        errorCode: "app_error",
        errorMessage: "Sad: for the record",
      });
      expect(run?.errorTraceback).toMatch(
        /^Traceback \(most recent call last\):\n.*in inner\n.*Sad: for the record\n?$/s,
      );
      expect(run?.errorTraceback).not.toContain("millrace_worker");
      expect(text).not.toContain("Traceback");
    },
  );
});

verifies(
  "errors.result-too-large",
  "a result over max_result is 500 result_too_large, one of that size is sent",
  async () => {
    expect((await call("big", { length: 1022 })).status).toBe(200);
    const answer = await call("big", { length: 1023 });
    expect([answer.status, answer.json.code]).toEqual([500, "result_too_large"]);
    expect(answer.headers.get("x-should-retry")).toBe("false");
  },
);

verifies(
  "errors.out-of-memory",
  "a function that gets no more memory is 502 out_of_memory, and the app lives on",
  async () => {
    const answer = await call("hungry");
    expect([answer.status, answer.json.code]).toEqual([502, "out_of_memory"]);
    expect((await call("big", { length: 1 })).status).toBe(200);
  },
);

verifies("errors.no-input", "what a caller sent comes back escaped or not at all", async () => {
  const hostile = "<script>\"'\\\n\r\u0000\u2028";
  const misfit = await call("big", { [hostile]: 1 });
  expectError(misfit);
  expect(misfit.status).toBe(422);
  expect(misfit.json.details).toContainEqual({ field: hostile, problem: "unknown" });
  const raised = await call("run", { text: hostile });
  expectError(raised);
  expect(raised.json.message).toBe(`Sad: ${hostile}`);
  const path = encodeURIComponent(hostile);
  for (const answer of [
    await service().call("app", "{<script>"),
    await service().call("app", '"<script>"'),
    await service().call("app", {}, { suffix: `?async=${path}` }),
    await service().call(path),
    await service().call("app", {}, { token: "<script>" }),
    await service().call("app", {}, { headers: { "content-type": "application/<script>" } }),
    await service().call("app", {}, { headers: { "x-request-id": "<script>", origin: "<script>" } }),
  ]) {
    expectError(answer);
    expect(answer.text).not.toContain("script");
    expect([...answer.headers.values()].join("\n")).not.toContain("script");
  }
});

verifies(
  ["errors.no-stack", "health.readyz"],
  "a service whose database does not answer is not ready, and lives; what it answers is 500 internal and tells nothing of it",
  async () => {
    const broken = await testService({ app: { main: "def run():\n    return 1\n" } });
    const { tokens, owner } = broken.service;
    const { token } = await tokens.issue({
      projectId: owner.projectId,
      name: "x",
      role: "run",
      expiresAt: Date.now() + 3_600_000,
    });
    await broken.service.store.close();
    const answer = await broken.call("app", {}, { token });
    expectError(answer);
    expect([answer.status, answer.json.code, answer.json.message]).toEqual([
      500,
      "internal",
      ERRORS.internal.message,
    ]);
    expect(answer.text).not.toMatch(/closed|node:|\.ts|at /);
    const { baseUrl } = broken.service;
    expect((await fetch(`${baseUrl}/readyz`)).status).toBe(503);
    expect((await fetch(`${baseUrl}/livez`)).status).toBe(200);
  },
);
