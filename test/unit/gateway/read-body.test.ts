import { describe, expect, test } from "vitest";
import { checkBodyHead, hasBody, isSoonOver } from "../../../src/gateway/read-body.ts";
import type { RequestHead } from "../../../src/gateway/request-head.ts";

const NONE: RequestHead = {
  host: null,
  authorization: null,
  contentType: null,
  contentEncoding: null,
  contentLength: null,
  origin: null,
  xDisconnect: null,
  accept: null,
  acceptEncoding: null,
  prefer: null,
  lastEventId: null,
  idempotencyKey: null,
  webhookSecret: null,
  forwardedFor: null,
  isChunked: false,
  isHeldBack: false,
};
const JSON_BODY: RequestHead = { ...NONE, contentType: "application/json", contentLength: "10" };

describe("the head of a request", () => {
  test("announces a body by a length other than 0 or by chunks", () => {
    expect([NONE, { ...NONE, contentLength: "0" }].map(hasBody)).toEqual([false, false]);
    expect([JSON_BODY, { ...NONE, isChunked: true }].map(hasBody)).toEqual([true, true]);
  });

  test("needs no content type where there is no body, and JSON where there is one", () => {
    expect(() => checkBodyHead(NONE, 10)).not.toThrow();
    expect(() => checkBodyHead({ ...NONE, contentType: "text/plain", contentLength: "0" }, 10)).not.toThrow();
    expect(() => checkBodyHead(JSON_BODY, 10)).not.toThrow();
    expect(() => checkBodyHead({ ...JSON_BODY, contentType: null }, 10)).toThrow("application/json");
  });

  test("is refused for a media type before it is refused for its length", () => {
    const long = { ...JSON_BODY, contentLength: "11" };
    expect(() => checkBodyHead(long, 10)).toThrow("max_body");
    expect(() => checkBodyHead({ ...long, contentType: "text/plain" }, 10)).toThrow("application/json");
  });
});

describe("the rest of a refused body is read away", () => {
  test("where there is none or it is short", () => {
    for (const head of [NONE, JSON_BODY, { ...JSON_BODY, contentLength: "65536" }]) {
      expect(isSoonOver(head)).toBe(true);
    }
  });

  test("not where it is long or of unknown length", () => {
    for (const change of [{ contentLength: "65537" }, { isChunked: true }]) {
      expect(isSoonOver({ ...JSON_BODY, ...change })).toBe(false);
    }
  });
});
