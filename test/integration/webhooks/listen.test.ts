import { expect, onTestFinished, test } from "vitest";
import { Command, MILLRACE, run } from "../../support/command-line.ts";
import { AddressRanges } from "../../../src/kit/ip-addresses.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { type Answer, Sender } from "../../../src/runs/webhooks/sender.ts";
import { callerSignature, newSecret, standardSignature } from "../../../src/runs/webhooks/signing-secrets.ts";
import { until } from "../../support/until.ts";

const ID = "0197c3a0-7e1b-7abc-8def-0123456789ab";

/** `millrace webhook listen` on a free port. */
async function listen(args: readonly string[]): Promise<{ command: Command; url: string }> {
  const command = new Command(MILLRACE, ["webhook", "listen", "--port", "0", ...args]);
  const [, url = ""] = await command.printed(/(http:\/\/127\.0\.0\.1:\d+\/)/);
  return { command, url };
}

/** A delivery as the service makes it, signed with both kinds of secret. */
async function deliver(url: string, standard: string, own: string, ageSeconds = 0): Promise<Answer | null> {
  const sender = new Sender({ allow: new AddressRanges(["127.0.0.0/8"]), clock: systemClock });
  onTestFinished(() => sender.close());
  const body = Buffer.from('{"run_id":"x","result":"\u001b[31mred"}');
  const timestampSeconds = Math.floor(Date.now() / 1_000) - ageSeconds;
  const signable = { id: ID, timestampSeconds, body };
  const headers = {
    "content-type": "application/json",
    "x-request-id": ID,
    "x-millrace-run-status": "200",
    "webhook-id": ID,
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": standardSignature([newSecret(), standard], signable),
    "x-cerebrium-webhook-timestamp": String(timestampSeconds),
    "x-cerebrium-webhook-signature": callerSignature(Buffer.from(own), signable),
  };
  return await sender.send({ url: new URL(url), headers, body }, new AbortController().signal);
}

test("each delivery is shown with the state of its signature, and answered", async () => {
  const secret = newSecret();
  const { command, url } = await listen(["--secret", secret, "--status", "202"]);
  expect(await deliver(`${url}hook`, secret, "text")).toMatchObject({ status: 202, error: null });
  await command.printed(/signature {2}good/);
  expect(command.stdout).toContain("POST /hook");
  expect(command.stdout).toContain(ID);
  // What a function returned must not steer the terminal.
  expect(command.stdout).not.toContain("\u001b");
  await deliver(url, newSecret(), "text");
  await command.printed(/signature {2}bad/);
  await deliver(url, secret, "text", 3_600);
  await command.printed(/signature {2}expired/);
  expect(await command.interrupt()).toBe(0);
});

test("with --json each line is a document; a text secret checks the hex form; the answer comes after --delay", async () => {
  const args = ["--json", "--secret", "own text", "--status", "503", "--delay", "1h"];
  const { command, url } = await listen(args);
  const delivered = deliver(url, newSecret(), "own text");
  await until("a line for the delivery", () => command.stdout.split("\n").length === 3);
  const [listening = "", delivery = ""] = command.stdout.split("\n");
  expect(JSON.parse(listening)).toEqual({ listening: url });
  expect(JSON.parse(delivery)).toMatchObject({ runId: ID, signature: "good", answered: 503, method: "POST" });
  // It was shown and is not answered yet: the end of the command breaks it off.
  expect(await command.interrupt()).toBe(0);
  expect(await delivered).toMatchObject({ status: null, error: "connection_reset" });
});

test("flags that make no sense are all named, and the exit code says so", async () => {
  const { code, stderr } = await run(MILLRACE, [
    "webhook",
    "listen",
    "--port",
    "99999",
    "--status",
    "abc",
    "--delay",
    "soon",
  ]);
  expect(code).toBe(2);
  for (const flag of ["--port", "--status", "--delay"]) expect(stderr).toContain(flag);
});
