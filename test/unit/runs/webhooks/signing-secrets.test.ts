import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import type { Delivery } from "../../../../src/model/delivery.ts";
import {
  callerSignature,
  deliveryHeaders,
  holdsSignature,
  newSecret,
  standardSignature,
} from "../../../../src/runs/webhooks/signing-secrets.ts";
import { verifies } from "../../../verifies.ts";

const ID = "0197c3a0-7e1b-7abc-8def-0123456789ab";
const body = Buffer.from('{"run_id":"x","result":"žluťoučký 😀","run_time_ms":1.5}');
const timestampSeconds = Math.floor(Date.now() / 1_000);
const signable = { id: ID, timestampSeconds, body };
const delivery: Delivery = {
  id: ID,
  appNumber: 1,
  url: "https://example.com/hook",
  contentType: "application/json",
  runStatus: 500,
  body,
  sealedSecret: null,
  state: "pending",
  attempts: 0,
  nextAt: 0,
  createdAt: 0,
  updatedAt: 0,
  trace: null,
};

function verifyByLibrary(secret: string, signature: string): unknown {
  const headers = {
    "webhook-id": ID,
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": signature,
  };
  return new Webhook(secret).verify(body.toString(), headers);
}

verifies("webhook.signature", "a Standard Webhooks library accepts the signature, and no other body", () => {
  const secret = newSecret();
  const signature = standardSignature([secret], signable);
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(signature).toMatch(/^v1,[A-Za-z0-9+/]{43}=$/);
  expect(verifyByLibrary(secret, signature)).toMatchObject({ result: "žluťoučký 😀" });
  const other = standardSignature([secret], { ...signable, body: Buffer.from("{}") });
  expect(() => verifyByLibrary(secret, other)).toThrow(/signature/i);
  expect(() => verifyByLibrary(newSecret(), signature)).toThrow(/signature/i);
});

test("several secrets give several entries, and a receiver may hold any of them", () => {
  const secrets = [newSecret(), newSecret(), newSecret()];
  const signature = standardSignature(secrets, signable);
  expect(signature.split(" ")).toHaveLength(3);
  for (const secret of secrets) {
    expect(verifyByLibrary(secret, signature)).toBeDefined();
    expect(holdsSignature(signature, standardSignature([secret], signable))).toBe(true);
  }
  expect(holdsSignature(signature, standardSignature([newSecret()], signable))).toBe(false);
  expect(holdsSignature("", "v1,x")).toBe(false);
});

test("the caller's own secret signs in hex", () => {
  const expected = createHmac("sha256", "my secret")
    .update(Buffer.concat([Buffer.from(`${ID}.${timestampSeconds}.`), body]))
    .digest("hex");
  expect(callerSignature(Buffer.from("my secret"), signable)).toBe(`v1,${expected}`);
});

verifies(["webhook.headers", "webhook.standard"], "a delivery carries exactly these headers", () => {
  const secrets = [newSecret()];
  const standard = {
    "content-type": "application/json",
    "content-length": String(body.length),
    "user-agent": "Millrace-Webhooks",
    "x-request-id": ID,
    "x-millrace-run-status": "500",
    "webhook-id": ID,
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": standardSignature(secrets, signable),
  };
  expect(
    deliveryHeaders(delivery, body, { secrets, callerSecret: null, timestampSeconds, trace: null }),
  ).toEqual(standard);
  const callerSecret = Buffer.from("my secret");
  expect(deliveryHeaders(delivery, body, { secrets, callerSecret, timestampSeconds, trace: null })).toEqual({
    ...standard,
    "x-cerebrium-webhook-timestamp": String(timestampSeconds),
    "x-cerebrium-webhook-signature": callerSignature(callerSecret, signable),
  });
  const bare = { ...delivery, contentType: null };
  const empty = new Uint8Array();
  expect(
    deliveryHeaders(bare, empty, { secrets, callerSecret: null, timestampSeconds, trace: null }),
  ).not.toHaveProperty("content-type");
});
