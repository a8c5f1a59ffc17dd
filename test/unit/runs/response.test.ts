import * as fc from "fast-check";
import { expect, test } from "vitest";
import { msText, respond, unwrapResult } from "../../../src/runs/response.ts";

const RUN_ID = "0190a3c4-0000-7000-8000-000000000001";

test("a span is told with two decimals at most, the short ones too", () => {
  expect([0, 0.004, 0.005, 0.1, 9.99, 9.996, 10, 1234.567, -0.004].map(msText)).toEqual([
    "0",
    "0",
    "0.01",
    "0.1",
    "9.99",
    "10",
    "10",
    "1234.57",
    "0",
  ]);
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1e6, noNaN: true }), (ms) => {
      expect(msText(ms)).toBe(String(Math.round(ms * 100) / 100));
    }),
  );
});

test("the result stands in the envelope byte for byte, and comes out of it again", () => {
  const result = fc.oneof(
    fc.json(),
    fc.string({ unit: "grapheme" }).map((text) => JSON.stringify(text)),
  );
  fc.assert(
    fc.property(result, fc.double({ min: 0, max: 1e5, noNaN: true }), (text, runMs) => {
      const json = Buffer.from(text);
      const { body } = respond(RUN_ID, { kind: "returned", status: 200, json, runMs }, false);
      expect(body.toString()).toBe(`{"run_id":"${RUN_ID}","result":${text},"run_time_ms":${msText(runMs)}}`);
      expect(unwrapResult(body, false)).toEqual(json);
    }),
  );
});
