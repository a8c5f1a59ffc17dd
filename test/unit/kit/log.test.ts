import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { readSources } from "../../support/source-files.ts";

test("an event is one JSON line with level, time and the fields it names, nothing of the host", () => {
  const stream = new PassThrough();
  createLog("info", stream).info({ runId: "r1" }, "line one\nline two");
  const text = String(stream.read());
  expect(text.indexOf("\n")).toBe(text.length - 1);
  const event = JSON.parse(text) as Record<string, unknown>;
  expect(Object.keys(event).toSorted()).toEqual(["level", "msg", "runId", "time"]);
  expect(event["msg"]).toBe("line one\nline two");
  expect(event["time"]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

test("events below the level are not written", () => {
  const stream = new PassThrough();
  const log = createLog("warn", stream);
  log.info("quiet");
  expect(stream.read()).toBeNull();
  log.warn("loud");
  expect(String(stream.read())).toContain("loud");
});

/** What a log with all levels writes for one event. */
function written(fields: object): string {
  const stream = new PassThrough();
  createLog("trace", stream).warn(fields, "event");
  return String(stream.read());
}

test("a field that nobody has allowed is left out, and so is an object in one that is", () => {
  const text = written({ runId: "r1", authorization: "Bearer x", host: { password: "y" } });
  expect(Object.keys(JSON.parse(text) as object)).toEqual(["level", "time", "runId", "msg"]);
});

test("an error is told by type, message, code, stack and cause, not by what a library hung onto it", () => {
  const cause = Object.assign(new TypeError("inner"), { request: { body: "secret" } });
  const err = Object.assign(new Error("outer", { cause }), { code: "E1", detail: "Key (x)=(secret)" });
  const text = written({ err });
  expect(JSON.parse(text)).toMatchObject({
    err: { type: "Error", message: "outer", code: "E1", cause: { type: "TypeError", message: "inner" } },
  });
  expect(text).not.toContain("secret");
});

test.each([
  ["a JWT", "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl", "[token]"],
  ["a signing secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "[secret]"],
  ["a token in a query", "/ws-logs?projectID=p&token=abc123", "/ws-logs?projectID=p&token=[masked]"],
  ["a password in an address", "postgres://u:hunter2@db/x", "postgres://[masked]@db/x"],
])("%s in a text is masked", (_, text, masked) => {
  expect(JSON.parse(written({ detail: text }))).toMatchObject({ detail: masked });
  expect(JSON.parse(written({ err: new Error(text) }))).toMatchObject({ err: { message: masked } });
});

test("every field that the sources log by name is an allowed one", () => {
  const names = new Set<string>();
  for (const text of readSources(["src"], [".ts"]).values()) {
    for (const [, fields = ""] of text.matchAll(/\blog\.(?:debug|info|warn|error)\(\s*\{([^{}]*)\}/g)) {
      for (const field of fields.split(",")) {
        const [, name] = /^\s*([a-z]\w*)/i.exec(field) ?? [];
        if (name !== undefined) names.add(name);
      }
    }
  }
  expect(names.size).toBeGreaterThan(15);
  const isDropped = (name: string): boolean => !(name in (JSON.parse(written({ [name]: 1 })) as object));
  expect([...names].filter(isDropped)).toEqual([]);
});
