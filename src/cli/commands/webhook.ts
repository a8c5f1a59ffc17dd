import type { Command } from "commander";
import { DELIVERY_STATES } from "../../model/delivery.ts";
import { DELIVERIES, ONE_DELIVERY, REDELIVERED } from "../../shapes/deliveries.ts";
import { firstOf, readLimit } from "../api/pages.ts";
import { usage } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { duration, relative } from "../output/amounts.ts";
import { paintStatus, printable, printableName } from "../output/paint.ts";
import { fields, table } from "../output/table.ts";
import { withService } from "../task.ts";
import type { RemoteFlags, Task } from "../task.ts";
import type { ListenFlags } from "../webhook.ts";

type ListFlags = RemoteFlags & { readonly state?: string; readonly limit: string };
type AgainFlags = RemoteFlags & { readonly from?: string; readonly to?: string };

/** `millrace webhook listen|deliveries|redeliver` */
export function defineWebhook(command: Command): void {
  const listen = command
    .command("listen")
    .description("receive webhooks on this machine, show each and check its signature")
    .option("--port <number>", "port to listen on; 0 picks a free one", "4200")
    .option("--status <code>", "status to answer with", "200")
    .option("--delay <duration>", "time to wait before answering", "0s")
    .option("--secret <secret>", "a project's whsec_… secret, or the text sent as X-Webhook-Secret")
    .option("--json", "print one JSON document per line");
  examples(listen, "millrace webhook listen --status 500 --delay 3s").action(async (flags: ListenFlags) =>
    (await import("../webhook.ts")).listen(flags),
  );

  const deliveries = remote(command.command("deliveries")).description(
    "list deliveries, newest first, or show one",
  );
  deliveries
    .argument("[run]", "the run whose delivery to show, with its attempts")
    .option("--state <state>", `only those: ${DELIVERY_STATES.join(", ")}`)
    .option("--limit <count>", "how many to show at most", "20");
  examples(deliveries, "millrace webhook deliveries --state failed").action(withService(listDeliveries));

  const redeliver = remote(command.command("redeliver")).description(
    "send one delivery again, or all of a time span",
  );
  redeliver
    .argument("[run]", "the run whose delivery to send")
    .option("--from <time>", "resend all deliveries since this RFC 3339 time")
    .option("--to <time>", "resend only deliveries until this time (default: now)");
  examples(
    redeliver,
    "millrace webhook redeliver 019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa",
    "millrace webhook redeliver --from 2026-01-02T10:00:00Z",
  ).action(withService(sendAgain));
}

async function listDeliveries(task: Task<ListFlags>, run?: string): Promise<void> {
  const { api, flags, out } = task;
  if (run !== undefined) return await showDelivery(task, run);
  const { state } = flags;
  if (state !== undefined && !(DELIVERY_STATES as readonly string[]).includes(state)) {
    throw usage(`--state takes one of ${DELIVERY_STATES.join(", ")}, not ${JSON.stringify(state)}`);
  }
  const limit = readLimit(flags.limit);
  const found = await firstOf(api, DELIVERIES, await api.path("deliveries"), limit, { query: { state } });
  out.show(found, () =>
    table(
      ["RUN", "STATE", "TRIES", "NEXT", "CREATED", "TO"],
      found.map((delivery) => [
        delivery.id,
        paintStatus(delivery.state),
        String(delivery.attemptCount),
        relative(delivery.nextAt),
        relative(delivery.createdAt),
        printableName(delivery.url),
      ]),
    ),
  );
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
    const tries = item.attempts.map(({ number, startedAt, durationMs, status, error }) => [
      String(number),
      relative(startedAt),
      duration(durationMs),
      printable(status === null ? (error ?? "") : String(status)),
    ]);
    return `${head}\n${table(["TRY", "WHEN", "TOOK", "ANSWER"], tries)}`;
  });
}

async function sendAgain({ api, flags, out }: Task<AgainFlags>, run?: string): Promise<void> {
  const { from, to } = flags;
  if ((run === undefined) === (from === undefined)) {
    throw usage("name one run, or a span with --from", "millrace webhook deliveries --state failed");
  }
  const rest = run === undefined ? "redeliver" : `${encodeURIComponent(run)}/redeliver`;
  const body =
    from === undefined ? undefined : { from: time("--from", from), to: to ? time("--to", to) : now() };
  const asking = body === undefined ? {} : { body };
  const answer = await api.ask(REDELIVERED, "POST", await api.path(`deliveries/${rest}`), asking);
  out.show(answer, () => `${answer.redelivered} queued to be sent again.\n`);
}

function time(flag: string, text: string): string {
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw usage(`${flag} takes an RFC 3339 time, not ${JSON.stringify(text)}`);
  return new Date(at).toISOString();
}

function now(): string {
  return new Date().toISOString();
}
