import { expect } from "vitest";
import { responseHeaders, responseTrailers } from "../../../../src/gateway/proxy/response-headers.ts";
import { verifies } from "../../../verifies.ts";

const OWN = { isOnAppHost: true };
const SHARED = { isOnAppHost: false };

verifies(
  ["origins.headers", "cookies.apps"],
  "handshakes and trailers say nothing that the headers of a response may not",
  () => {
    const headers = [
      ["Service-Worker-Allowed", "/"],
      ["Clear-Site-Data", "*"],
      ["Set-Cookie", "a=1; Domain=example.com"],
      ["Set-Cookie", "__Host-millrace_refresh=x"],
      ["X-Kept", "1"],
    ].flat();
    const handshake = { status: 101, headers, length: null, isReusable: false };
    const passed = (place: typeof OWN) => responseHeaders(handshake, false, place).headers;
    expect(passed(SHARED)).toEqual(["Set-Cookie", "a=1", "X-Kept", "1"]);
    expect(passed(OWN)).toEqual(["Service-Worker-Allowed", "/", "Set-Cookie", "a=1", "X-Kept", "1"]);
    expect(responseTrailers(headers, SHARED)).toEqual(["X-Kept", "1"]);
    expect(responseTrailers(headers, OWN)).toEqual(["Service-Worker-Allowed", "/", "X-Kept", "1"]);
  },
);
