import { expect, test } from "vitest";
import type { IncomingMessage } from "node:http";
import { preferredWait, readHead } from "../../../src/gateway/request-head.ts";
import { verifies } from "../../verifies.ts";

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

verifies("terms.headers", "headers of queues that are given twice are left to async calls to refuse", () => {
  const names = ["Cancel-After", "X-Fal-Queue-Priority", "X-Fal-Request-Timeout"];
  const rawHeaders = ["Host", "a", ...[...names, ...names].flatMap((name, i) => [name, ` ${i} `])];
  const request = { rawHeaders, url: "/", httpVersion: "1.1", httpVersionMajor: 1 };
  expect(readHead(request as unknown as IncomingMessage)).toMatchObject({
    cancelAfter: "0, 3",
    queuePriority: "1, 4",
    requestTimeout: "2, 5",
  });
});
