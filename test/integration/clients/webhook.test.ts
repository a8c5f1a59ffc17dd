import { expect } from "vitest";
import { InvalidWebhook, verifyWebhook } from "../../../src/client/client.ts";
import { sharedService } from "../../support/shared-service.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { CLIENTS_MAIN, clientOf, inPython, newSecret } from "./site.ts";

const service = sharedService({ app: { main: CLIENTS_MAIN } }, { webhookAllow: "127.0.0.0/8" });

verifies("client.webhook", "both clients know a delivery by either secret, and nothing else", async () => {
  const projectSecrets = [await newSecret(service()), await newSecret(service())];
  const target = await WebhookTarget.open();
  const webhook = { url: target.url, secret: "tropfen-für-tropfen" };
  const run = await clientOf(service()).runAsync("app", { name: "Ž" }, { webhook });
  await target.has(1);
  const [received] = target.received;
  if (!received) throw new Error("nothing came");
  const { headers, body } = received;
  expect(JSON.parse(body.toString())).toMatchObject({ run_id: run.id, result: { message: "Hello, Ž!" } });

  const secrets = [...projectSecrets, webhook.secret, ["whsec_b3RoZXI=", ...projectSecrets]];
  for (const secret of secrets) {
    expect(await verifyWebhook({ secret, headers, body })).toMatchObject({ runId: run.id, runStatus: 200 });
  }
  const strangers = ["whsec_b3RoZXI=", "other", "whsec_", projectSecrets[0]?.slice(0, -4) ?? ""];
  for (const secret of strangers) {
    await expect(verifyWebhook({ secret, headers, body })).rejects.toBeInstanceOf(InvalidWebhook);
  }
  const shown = await inPython(
    service(),
    `
import base64
headers, secrets, strangers = json.loads(${JSON.stringify(JSON.stringify([headers, secrets, strangers]))})
body = base64.b64decode("${body.toString("base64")}")
def raised(secret, body=body, **options):
    try:
        return verify_webhook(secret, headers, body, **options)
    except InvalidWebhook as error:
        return error.code
show([
    [verify_webhook(secret, headers, body) for secret in secrets],
    [raised(secret) for secret in strangers],
    raised(secrets[0], body + b" "),
    raised(secrets[0], now=int(headers["webhook-timestamp"]) + 301),
    raised(secrets[0], now=int(headers["webhook-timestamp"]) + 299),
])`,
  );
  const invalid = "invalid_webhook";
  expect(shown).toEqual([secrets.map(() => run.id), strangers.map(() => invalid), invalid, invalid, run.id]);
});
