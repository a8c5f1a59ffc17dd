import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { InvalidWebhook, verifyWebhook } from "../../../src/client/webhook.ts";
import { callerSignature, newSecret, standardSignature } from "../../../src/runs/webhooks/signing-secrets.ts";

const id = "019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa";
const now = 1_790_000_000_000;
const timestampSeconds = now / 1000;
const body = Buffer.from('{"run_id":"x","result":"ž 😀"}');
const secret = newSecret();

function signed(secrets: readonly string[] = [secret]): Record<string, string> {
  return {
    "webhook-id": id,
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": standardSignature(secrets, { id, timestampSeconds, body }),
    "x-millrace-run-status": "200",
  };
}

test("what a Standard Webhooks library signs is genuine, in any form of headers and body", async () => {
  const signature = new Webhook(secret).sign(id, new Date(now), body.toString());
  const plain = { ...signed(), "webhook-signature": signature };
  const upper = Object.fromEntries(
    Object.entries(plain).map(([name, value]) => [name.toUpperCase(), [value]]),
  );
  const expected = { runId: id, runStatus: 200, sentAt: new Date(now) };
  for (const headers of [plain, upper, new Headers(plain)]) {
    for (const form of [body, new Uint8Array(body), body.toString()]) {
      expect(await verifyWebhook({ secret, headers, body: form, now })).toEqual(expected);
    }
  }
});

test("any of several secrets will do, on either side", async () => {
  const [old, other] = [newSecret(), newSecret()];
  const headers = signed([old, secret]);
  expect(await verifyWebhook({ secret: [other, secret], headers, body, now })).toMatchObject({ runId: id });
  expect(await verifyWebhook({ secret: old, headers, body, now })).toMatchObject({ runId: id });
  await expect(verifyWebhook({ secret: other, headers, body, now })).rejects.toBeInstanceOf(InvalidWebhook);
  await expect(verifyWebhook({ secret: [], headers, body, now })).rejects.toThrow("at least one secret");
});

test("the signature by the caller's own secret is taken too", async () => {
  const own = "a secret of my own";
  const headers = {
    "x-request-id": id,
    "x-cerebrium-webhook-timestamp": String(timestampSeconds),
    "x-cerebrium-webhook-signature": callerSignature(Buffer.from(own), { id, timestampSeconds, body }),
  };
  expect(await verifyWebhook({ secret: own, headers, body, now })).toMatchObject({
    runId: id,
    runStatus: null,
  });
  await expect(verifyWebhook({ secret: "another", headers, body, now })).rejects.toBeInstanceOf(
    InvalidWebhook,
  );
});

test("whatever is changed, missing or old is refused", async () => {
  const headers = signed();
  const without = (name: string) =>
    Object.fromEntries(Object.entries(headers).filter(([other]) => other !== name));
  const signature = headers["webhook-signature"] ?? "";
  const forged: Parameters<typeof verifyWebhook>[0][] = [
    { secret, headers, body: Buffer.concat([body, Buffer.from(" ")]), now },
    { secret, headers: { ...headers, "webhook-id": "another" }, body, now },
    { secret, headers: { ...headers, "webhook-timestamp": String(timestampSeconds + 1) }, body, now },
    { secret, headers: { ...headers, "webhook-timestamp": "soon" }, body, now },
    { secret, headers: { ...headers, "webhook-signature": signature.slice(0, -2) }, body, now },
    { secret, headers: { ...headers, "webhook-signature": signature.replace("v1,", "v2,") }, body, now },
    { secret, headers: { ...headers, "webhook-signature": "v1,*" }, body, now },
    { secret, headers: { ...headers, "webhook-signature": "" }, body, now },
    ...["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => ({
      secret,
      headers: without(name),
      body,
      now,
    })),
    { secret, headers, body, now: now + 300_001 },
    { secret, headers, body, now: now - 300_001 },
    { secret, headers, body, now: now + 11_000, toleranceSeconds: 10 },
  ];
  for (const received of forged) await expect(verifyWebhook(received)).rejects.toBeInstanceOf(InvalidWebhook);
  expect(await verifyWebhook({ secret, headers, body, now: now + 300_000 })).toMatchObject({ runId: id });
});
