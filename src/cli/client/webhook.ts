import { once } from "node:events";
import type { IncomingHttpHeaders, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { ConfigError } from "../../config/problems.ts";
import { createServer } from "../../kit/node-http.ts";
import { DELIVERY_STATES } from "../../model/delivery.ts";
import { callerSignature, holdsSignature, standardSignature } from "../../runs/webhooks/signing-secrets.ts";
import { DELIVERIES, ONE_DELIVERY, REDELIVERED } from "../../shapes/deliveries.ts";
import { usage } from "../failure.ts";
import { type Definitions, examples } from "../options.ts";
import { duration, fields, paintStatus, printable, printableName, relative, tableOf } from "../output.ts";
import { firstOf } from "./api.ts";
import { asking, count, LIMIT_OPTION, oneOf, seconds } from "./task.ts";
import type { RemoteFlags, Switches, Task, Texts } from "./task.ts";

type ListFlags = RemoteFlags & { readonly state?: string; readonly limit: number };
type AgainFlags = RemoteFlags & { readonly from?: string; readonly to?: string };

const state = oneOf("--state", DELIVERY_STATES);

export const COMMANDS: Definitions = {
  webhook(command) {
    const listenText = "receive webhooks on this machine, show each and check its signature";
    examples(command.command("listen"), "millrace webhook listen --status 500 --delay 3s")
      .description(listenText)
      .option("--port <number>", "port to listen on; 0 picks a free one", "4200")
      .option("--status <code>", "status to answer with", "200")
      .option("--delay <duration>", "time to wait before answering", "0s")
      .option("--secret <secret>", "a project's whsec_… secret, or the text sent as X-Webhook-Secret")
      .option("--json", "print one JSON document per line")
      .action(listen);
    asking(
      command,
      "deliveries",
      "list deliveries, newest first, or show one",
      listDeliveries,
      "--state failed",
    )
      .argument("[run]", "the run whose delivery to show, with its attempts")
      .option("--state <state>", `only those: ${DELIVERY_STATES.join(", ")}`, state)
      .option(...LIMIT_OPTION);
    asking(
      command,
      "redeliver",
      "send one delivery again, or all of a time span",
      redeliver,
      "019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa",
      "--from 2026-01-02T10:00:00Z",
    )
      .argument("[run]", "the run whose delivery to send")
      .option("--from <time>", "resend all deliveries since this RFC 3339 time", readTime("--from"))
      .option("--to <time>", "resend only deliveries until this time (default: now)", readTime("--to"));
  },
};

async function listDeliveries(task: Task<ListFlags>, run?: string): Promise<void> {
  const { api, flags, out } = task;
  if (run !== undefined) return await showDelivery(task, run);
  const { state, limit } = flags;
  out.list(await firstOf(api, DELIVERIES, await api.path("deliveries"), limit, { query: { state } }), {
    RUN: ({ id }) => id,
    STATE: ({ state }) => paintStatus(state),
    TRIES: ({ attemptCount }) => String(attemptCount),
    NEXT: ({ nextAt }) => relative(nextAt),
    CREATED: ({ createdAt }) => relative(createdAt),
    TO: ({ url }) => printableName(url),
  });
}

async function showDelivery({ api, out }: Task, run: string): Promise<void> {
  const path = await api.path(`deliveries/${encodeURIComponent(run)}`);
  const { item } = await api.get(ONE_DELIVERY, path);
  out.show(item, () => {
    const head = fields([
      ["run", item.id],
      ["state", paintStatus(item.state)],
      ["to", printable(item.url)],
      ["run status", String(item.runStatusCode)],
      ["next try", relative(item.nextAt)],
    ]);
    const tries = tableOf(item.attempts, {
      TRY: ({ number }) => String(number),
      WHEN: ({ startedAt }) => relative(startedAt),
      TOOK: ({ durationMs }) => duration(durationMs),
      ANSWER: ({ status, error }) => printable(status === null ? (error ?? "") : String(status)),
    });
    return `${head}\n${tries}`;
  });
}

async function redeliver({ api, flags, out }: Task<AgainFlags>, run?: string): Promise<void> {
  const { from, to } = flags;
  if ((run === undefined) === (from === undefined)) {
    throw usage("name one run, or a span with --from", "millrace webhook deliveries --state failed");
  }
  const rest = run === undefined ? "redeliver" : `${encodeURIComponent(run)}/redeliver`;
  const body = from === undefined ? undefined : { from, to: to ?? new Date().toISOString() };
  const answer = await api.ask(REDELIVERED, "POST", await api.path(`deliveries/${rest}`), { body });
  out.show(answer, () => `${answer.redelivered} queued to be sent again.\n`);
}

function readTime(flag: string): (text: string) => string {
  return (text) => {
    const at = Date.parse(text);
    if (Number.isNaN(at)) throw usage(`${flag} takes an RFC 3339 time, not ${JSON.stringify(text)}`);
    return new Date(at).toISOString();
  };
}

type ListenFlags = Required<Texts<"port" | "status" | "delay">> & Texts<"secret"> & Switches<"json">;

type Listening = ReturnType<typeof readListening>;

type Came = {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
};

const TOLERANCE_SECONDS = 300;
const SHOWN_CHARACTERS = 2_000;
const MAX_BODY_BYTES = 64 * 1024 * 1024;

/** `millrace webhook listen`: a receiver on this machine that shows what comes and checks its signature. */
async function listen(flags: ListenFlags): Promise<void> {
  const listening = readListening(flags);
  const server = receiver(listening, (came) => {
    process.stdout.write(flags.json ? asJson(came, listening) : asText(came, listening));
  });
  server.listen(listening.port, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  if (flags.json) process.stdout.write(`${JSON.stringify({ listening: url })}\n`);
  else process.stdout.write(`Listening on ${url}\nUse it as webhookEndpoint. Ctrl-C stops it.\n\n`);
  await Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
  server.close();
  server.closeAllConnections();
}

function receiver({ status, delay }: Listening, show: (came: Came) => void): Server {
  return createServer((request, response) => {
    const pieces: Buffer[] = [];
    let bytes = 0;
    request.on("error", () => {}); // A request that breaks off is no delivery.
    request.on("data", (piece: Buffer) => {
      bytes += piece.length;
      if (bytes > MAX_BODY_BYTES) request.destroy();
      else pieces.push(piece);
    });
    request.on("end", () => {
      const { method = "", url: path = "", headers } = request;
      show({ method, path, headers, body: Buffer.concat(pieces) });
      void sleep(delay * 1000, undefined, { ref: false }).then(() => response.writeHead(status).end());
    });
  });
}

/** One word for the signature: `good`, `bad`, `missing`, `expired`, or `unchecked` without a secret. */
function judgeSignature({ headers, body }: Came, secret: string | undefined): string {
  if (secret === undefined) return "unchecked";
  const isStandard = secret.startsWith("whsec_");
  const name = isStandard ? "webhook" : "x-cerebrium-webhook";
  const { [`${name}-signature`]: signature, [`${name}-timestamp`]: timestamp } = headers;
  if (typeof signature !== "string" || typeof timestamp !== "string") return "missing";
  const id = String(headers["webhook-id"] ?? headers["x-request-id"] ?? "");
  const signable = { id, timestampSeconds: Number(timestamp), body };
  const expected = isStandard
    ? standardSignature([secret], signable)
    : callerSignature(Buffer.from(secret), signable);
  if (!holdsSignature(signature, expected)) return "bad";
  return Math.abs(Date.now() / 1_000 - Number(timestamp)) > TOLERANCE_SECONDS ? "expired" : "good";
}

function asJson(came: Came, { status, secret }: Listening): string {
  const { method, path, headers, body } = came;
  const signature = judgeSignature(came, secret);
  const runId = headers["x-request-id"] ?? null;
  return `${JSON.stringify({ method, path, runId, signature, answered: status, headers, body: body.toString() })}\n`;
}

function asText(came: Came, { status, secret }: Listening): string {
  const { method, path, headers, body } = came;
  const text = body.toString();
  const rest = text.length - SHOWN_CHARACTERS;
  return [
    `${new Date().toISOString()}  ${method} ${path}, answered ${status}`,
    `  run        ${String(headers["x-request-id"] ?? "none")}`,
    `  status     ${String(headers["x-millrace-run-status"] ?? "none")}`,
    `  signature  ${judgeSignature(came, secret)}`,
    `  body       ${body.length} bytes, ${headers["content-type"] ?? "no content type"}`,
    `  ${text.slice(0, SHOWN_CHARACTERS)}${rest > 0 ? `… ${rest} more characters` : ""}`,
  ]
    .map((line) => `${printable(line)}\n`)
    .join("")
    .concat("\n");
}

/** Names all options that make no sense at once. */
function readListening({ port, status, delay, secret }: ListenFlags) {
  const problems: string[] = [];
  const read = (parse: (text: string) => number, text: string): number => {
    try {
      return parse(text);
    } catch (error) {
      problems.push((error as Error).message);
      return 0;
    }
  };
  const listening = {
    port: read(count("--port", 0, 65_535), port),
    status: read(count("--status", 200, 599), status),
    delay: read(seconds("--delay"), delay),
    secret,
  };
  if (problems.length > 0) throw new ConfigError("the command line", problems);
  return listening;
}
