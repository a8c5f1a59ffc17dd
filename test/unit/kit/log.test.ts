import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { createLog } from "../../../src/kit/log.ts";

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
