import { expect } from "vitest";
import {
  Command,
  MILLRACE,
  installed,
  scratchDirectory,
  serviceEnvironment,
} from "../../support/command-line.ts";
import { ISOLATION } from "../../support/test-settings.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "webhook.start-loopback",
  "npm start lets webhooks reach this machine, by address and by name",
  async () => {
    const target = await WebhookTarget.open();
    const dataDir = scratchDirectory();
    const command = new Command(MILLRACE, ["start"], {
      env: { ...serviceEnvironment(dataDir), MILLRACE_ISOLATION: ISOLATION },
    });
    await command.printed(/Ctrl-C stops it/);
    const fields = await installed(dataDir);
    for (const url of [target.url, target.url.replace("127.0.0.1", "localhost")]) {
      const before = target.received.length;
      const place = `${fields.api_url}/v4/${fields.project_id}/hello/run`;
      const answer = await fetch(`${place}?webhookEndpoint=${encodeURIComponent(url)}`, {
        method: "POST",
        headers: { authorization: `Bearer ${fields.token}`, "content-type": "application/json" },
        body: '{"name":"Ada"}',
      });
      expect(answer.status).toBe(200);
      await target.has(before + 1);
      expect(target.received.at(-1)?.body.toString()).toBe(await answer.text());
    }
    await command.interrupt();
  },
);
