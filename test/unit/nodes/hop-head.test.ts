import type { IncomingMessage } from "node:http";
import { expect } from "vitest";
import { hopHead, type HopHow, takeHop } from "../../../src/nodes/forward/hop-head.ts";
import { verifies } from "../../verifies.ts";

const HOW: HopHow = {
  purpose: "api",
  remote: "203.0.113.9",
  hostOf: null,
  isUpgrade: false,
  readBytes: null,
  littleBytes: 1024,
};

/** A request as Node gives it. */
function requestOf(rawHeaders: string[]): IncomingMessage {
  return {
    method: "GET",
    url: "/x",
    httpVersion: "1.1",
    rawHeaders,
    headers: {},
  } as unknown as IncomingMessage;
}

/** What the next node reads of a head. */
function readBack(text: string) {
  const [, ...lines] = text.trimEnd().split("\r\n");
  return takeHop(requestOf(lines.flatMap((line) => line.split(": "))));
}

verifies(
  "origins.nodes",
  "the next node is told whose host a request came to, or that it is nobody's",
  () => {
    const caller = requestOf([
      "Host",
      "app--p-1.apps.test",
      "x-millrace-for",
      "api - 1.1 plain host p-2/evil",
    ]);
    expect(readBack(hopHead(caller, HOW).text)).toEqual({
      purpose: "api",
      remote: "203.0.113.9",
      httpVersion: "1.1",
      isHeld: false,
      hostOf: null,
    });
    const hostOf = { projectId: "p-1", appName: "my--app" };
    expect(readBack(hopHead(caller, { ...HOW, hostOf }).text)).toMatchObject({ hostOf });
    for (const said of [
      "host",
      "host p-1",
      "host p-1/",
      "host P-1/a",
      "host p-1/a b",
      "host p-1/a/b",
      "p-1/a",
    ])
      expect([said, takeHop(requestOf(["x-millrace-for", `api - 1.1 plain ${said}`]))]).toEqual([said, null]);
  },
);
