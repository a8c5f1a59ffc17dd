import { expect, test } from "vitest";
import { preferredWait } from "../../../src/gateway/request-head.ts";

test("the seconds that a caller will wait", () => {
  for (const [prefer, seconds] of [
    ["wait=10", 10],
    ["wait=0", 0],
    ["Wait = 5", 5],
    ['wait="7"', 7],
    ["respond-async, wait=10", 10],
    ["wait=10, respond-async", 10],
    ["wait=20;foo=bar", 20],
    ["wait=999999", 3600],
  ] as const) {
    expect([prefer, preferredWait(prefer)]).toEqual([prefer, seconds]);
  }
});

test("nothing where nothing of the kind is said", () => {
  for (const prefer of [
    null,
    "",
    "respond-async",
    "wait",
    "wait=",
    "wait=x",
    "wait=-1",
    "wait=1.5",
    "await=3",
  ]) {
    expect([prefer, preferredWait(prefer)]).toEqual([prefer, null]);
  }
});
