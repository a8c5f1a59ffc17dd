import { createHash } from "node:crypto";
import { expect } from "vitest";
import { type Keys, sign, type Unsigned } from "../../../src/blobs/s3/sign.ts";
import { verifies } from "../../verifies.ts";

/** Of AWS's suite of tests for Signature Version 4. */
const SUITE: Keys = {
  accessKeyId: "AKIDEXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
  sessionToken: null,
};
const SUITE_TIME = Date.UTC(2015, 7, 30, 12, 36);
/** Of the examples in the documentation of S3. */
const DOCUMENTED: Keys = {
  accessKeyId: "AKIAIOSFODNN7EXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  sessionToken: null,
};
const DOCUMENTED_TIME = Date.UTC(2013, 4, 24);

function hash(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function signature(request: Partial<Unsigned>, keys: Keys, now: number, service: string): string {
  const host = service === "s3" ? "examplebucket.s3.amazonaws.com" : "example.amazonaws.com";
  const bodyHash = request.bodyHash ?? hash("");
  const headers = { ...(service === "s3" && { "x-amz-content-sha256": bodyHash }), ...request.headers };
  const whole = { method: "GET", host, path: "/", query: {}, ...request, headers, bodyHash };
  const { authorization = "" } = sign(whole, keys, { region: "us-east-1", service }, now);
  return authorization.slice(authorization.indexOf("Signature=") + "Signature=".length);
}

const OF_SUITE: [string, Partial<Unsigned>, string][] = [
  ["get-vanilla", {}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"],
  [
    "get-vanilla-query-order-key-case",
    {
      query: { Param2: "value2", Param1: "value1" },
    },
    "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
  ],
  ["post-vanilla", { method: "POST" }, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"],
  [
    "post-x-www-form-urlencoded",
    {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      bodyHash: hash("Param1=value1"),
    },
    "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
  ],
];

const OF_DOCUMENTATION: [string, Partial<Unsigned>, string][] = [
  [
    "an object's range",
    { path: "/test.txt", headers: { range: "bytes=0-9" } },
    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  ],
  [
    "a put with a name to encode",
    {
      method: "PUT",
      path: "/test$file.text",
      headers: { date: "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY" },
      bodyHash: hash("Welcome to Amazon S3."),
    },
    "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
  ],
  [
    "a query without a value",
    { query: { lifecycle: "" } },
    "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
  ],
  [
    "a list",
    {
      query: { "max-keys": "2", prefix: "J" },
    },
    "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
  ],
];

verifies("blobs.s3.signature", "the signatures of AWS's test suite come out", () => {
  for (const [name, request, expected] of OF_SUITE)
    expect([name, signature(request, SUITE, SUITE_TIME, "service")]).toEqual([name, expected]);
});

verifies("blobs.s3.signature", "the signatures in the documentation of S3 come out", () => {
  for (const [name, request, expected] of OF_DOCUMENTATION)
    expect([name, signature(request, DOCUMENTED, DOCUMENTED_TIME, "s3")]).toEqual([name, expected]);
});

verifies("blobs.s3.signature", "the token of lent keys is sent and signed", () => {
  const request = { method: "GET", host: "h", path: "/", query: {}, headers: {}, bodyHash: hash("") };
  const keys = { ...SUITE, sessionToken: "lent" };
  const headers = sign(request, keys, { region: "r", service: "s3" }, SUITE_TIME);
  expect(headers["x-amz-security-token"]).toBe("lent");
  expect(headers["authorization"]).toContain("SignedHeaders=host;x-amz-date;x-amz-security-token,");
});
