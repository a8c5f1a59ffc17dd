import { describe, expect, test } from "vitest";
import { readTrace, traceBelow } from "../../../src/model/trace.ts";
import { verifies } from "../../verifies.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const PARENT = `00-${TRACE}-${SPAN}-01`;

verifies("traces.w3c", "a valid traceparent is taken, and passed on in version 00", () => {
  const context = readTrace(PARENT, null);
  expect(context).toEqual({ traceId: TRACE, parentId: SPAN, isSampled: true, state: null });
  const told = traceBelow({ ...context!, spanId: null }, null);
  expect(told).toMatchObject({ traceparent: PARENT, tracestate: null });
  expect(readTrace(`00-${TRACE}-${SPAN}-00`, null)?.isSampled).toBe(false);
  // That the id is random is passed on; other flags are not, because nothing is known of them.
  for (const [flags, told] of [
    ["ff", "03"],
    ["02", "02"],
    ["fd", "01"],
    ["fc", "00"],
  ]) {
    const flagged = readTrace(`00-${TRACE}-${SPAN}-${flags}`, null)!;
    const { traceparent } = traceBelow({ ...flagged, spanId: null }, null);
    expect(traceparent).toBe(`00-${TRACE}-${SPAN}-${told}`);
  }
});

verifies("traces.w3c", "an invalid traceparent is none", () => {
  const wrong = {
    "version ff": `ff-${TRACE}-${SPAN}-01`,
    "upper case": PARENT.toUpperCase(),
    "a trace of zeros": `00-${"0".repeat(32)}-${SPAN}-01`,
    "a span of zeros": `00-${TRACE}-${"0".repeat(16)}-01`,
    "more behind version 00": `${PARENT}-more`,
    "a short trace": `00-${TRACE.slice(1)}-${SPAN}-01`,
    "a short span": `00-${TRACE}-${SPAN.slice(1)}-01`,
    "no flags": `00-${TRACE}-${SPAN}`,
    "other separators": PARENT.replaceAll("-", "_"),
    "two headers": `${PARENT}, ${PARENT}`,
    "two headers, the first of a later version": `01-${TRACE}-${SPAN}-01, ${PARENT}`,
    "a long one of a later version": `01-${TRACE}-${SPAN}-01-${"a".repeat(300)}`,
    "no letters of hexadecimal": PARENT.replace("0af7", "0agz"),
    empty: "",
  };
  for (const [what, header] of Object.entries(wrong))
    expect([what, readTrace(header, "a=1")]).toEqual([what, null]);
});

verifies("traces.w3c", "a later version is read as far as this one goes", () => {
  const known = { traceId: TRACE, parentId: SPAN, isSampled: true, state: null };
  expect(readTrace(`cc-${TRACE}-${SPAN}-01`, null)).toEqual(known);
  expect(readTrace(`cc-${TRACE}-${SPAN}-01-what-the-future-brings`, null)).toEqual(known);
  expect(readTrace(`cc-${TRACE}-${SPAN}-01.what`, null)).toBeNull();
});

describe("tracestate", () => {
  const stateOf = (text: string): string | null => readTrace(PARENT, text)?.state ?? null;

  verifies("traces.w3c", "a valid one is passed on", () => {
    expect(stateOf("congo=t61rcWkgMzE, rojo=00f067aa0ba902b7")).toBe(
      "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7",
    );
    expect(stateOf("tenant@vendor=a=b".replace("=b", ""))).toBe("tenant@vendor=a");
    expect(stateOf("a=1,, ,b=2")).toBe("a=1,b=2");
    expect(stateOf(`${"k".repeat(256)}=1`)).toBe(`${"k".repeat(256)}=1`);
  });

  verifies("traces.w3c", "an invalid one is dropped alone", () => {
    const wrong = [
      "",
      "a",
      "A=1",
      "a=",
      "=1",
      "a=1,a=2",
      "a=b=c",
      "a=\u00e9",
      "a b=1",
      `${"k".repeat(257)}=1`,
    ];
    for (const text of wrong) expect([text, stateOf(text)]).toEqual([text, null]);
    expect(readTrace(PARENT, "A=1")?.traceId).toBe(TRACE);
  });

  verifies(
    "traces.w3c",
    "more than 32 members are dropped; of more than 512 characters, long members go first",
    () => {
      const members = (count: number): string[] => Array.from({ length: count }, (_, i) => `k${i}=${i}`);
      expect(stateOf(members(32).join(","))).toBe(members(32).join(","));
      expect(stateOf(members(33).join(","))).toBeNull();
      const long = `long=${"x".repeat(200)}`;
      const middling = members(5).map((member) => member + "y".repeat(90));
      expect(stateOf([long, ...middling].join(","))).toBe(middling.join(","));
      const many = members(8).map((member) => member + "y".repeat(90));
      const kept = stateOf(many.join(",")) ?? "";
      expect(kept.length).toBeLessThanOrEqual(512);
      expect(many.join(",").startsWith(kept)).toBe(true);
    },
  );
});

test("what comes next is below the run's own span if that is recorded", () => {
  const trace = { traceId: TRACE, parentId: SPAN, spanId: "1".repeat(16), isSampled: true, state: "a=1" };
  expect(traceBelow(trace, "2".repeat(16))).toEqual({
    traceId: TRACE,
    spanId: "2".repeat(16),
    traceparent: `00-${TRACE}-${"2".repeat(16)}-01`,
    tracestate: "a=1",
  });
});
