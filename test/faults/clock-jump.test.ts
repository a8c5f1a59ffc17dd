import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { DATABASE_KINDS, testDatabases } from "../support/databases.ts";
import { KillableService } from "../support/killable-service.ts";
import { LEDGER_APP, Ledger, resultOf } from "../support/ledger.ts";
import { ServiceClock } from "../support/service-clock.ts";
import { until } from "../support/until.ts";
import { MODES, WebhookTarget } from "../support/webhook-target.ts";

const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;
// All longer than the test itself may take, all together less than the least jump: whatever comes due early was
// made so by a jump.
const WAIT_SECONDS = 310;
const GRACE_SECONDS = 600;
const RETRY_SECONDS = 900;

const APP = {
  main: LEDGER_APP,
  toml: `[scaling]\nmax_replicas = 2\nresponse_grace_period = "${GRACE_SECONDS}s"\nmax_queue_seconds = "1h"\n`,
};

const databases = testDatabases();

for (const kind of DATABASE_KINDS) {
  test(`jumps of the wall clock break no deadline, lease, schedule or token on ${kind}`, async () => {
    const target = await WebhookTarget.open();
    const env = { MILLRACE_WEBHOOK_ALLOW: "127.0.0.0/8" };
    const service = await KillableService.deploy(await databases.fresh(kind), APP, env);
    const clock = new ServiceClock(service);
    expect(await clock.start()).toBe(true);
    await expectTimesKept(clock, target, [HOUR_MS, 10 * YEAR_MS]);
    await expectTimesKept(clock, target, [-HOUR_MS, 0, HOUR_MS, -24 * HOUR_MS]);
    const { stderr } = service.command;
    expect(stderr).not.toContain("returning the run to the queue");
    expect(stderr).not.toContain("ignored a late outcome");
    await service.stop();
    const ledger = Ledger.read(service);
    expect([...ledger.begins.values()].filter((count) => count !== 1)).toEqual([]);
  });
}

/** Begins everything that has a deadline, moves the clock, and sees each deadline come when it should. */
async function expectTimesKept(clock: ServiceClock, target: WebhookTarget, jumps: number[]): Promise<void> {
  const [firstJump = 0, ...otherJumps] = jumps;
  const { service } = clock;
  const round = String(target.received.length);
  const withWebhook = async (name: string) => {
    const url = encodeURIComponent(`${target.url}/${round}/${name}`);
    return await accept(service, "run", { n: 1 }, `&webhookEndpoint=${url}`);
  };
  const sentTo = (name: string) => target.received.filter(({ path: sent }) => sent === `/${round}/${name}`);
  // The first attempt fails, and the target names the time of the second.
  target.behave = (response, { path: sent }) => {
    const isFirst = sent === `/${round}/before` && sentTo("before").length === 1;
    if (isFirst) response.writeHead(503, { "retry-after": String(RETRY_SECONDS) }).end();
    else MODES.ok(response);
  };
  const scheduled = await withWebhook("before");
  await until("the second attempt is planned", async () => (await attempts(service, scheduled)) === 1);

  await clock.setAhead(firstJump);
  const afterwards = await withWebhook("after");
  await until("a response made after the jump was sent", () => sentTo("after").length > 0, target.news);

  const held = await accept(service, "hold", { n: 2, name: `go-${round}` });
  const endless = await accept(service, "hold", { n: 3, name: `never-${round}` });
  const begun = (id: string) => Ledger.read(service).begun(id) === 1;
  await until("both run", () => begun(held) && begun(endless));
  const queued = await accept(service, "run", { n: 4 });
  let isAnswered = false;
  const impatient = service
    .post({ n: 5 }, { headers: { prefer: `wait=${WAIT_SECONDS}` } })
    .finally(() => (isAnswered = true));
  for (const ms of otherJumps) await clock.setAhead(ms);

  const later = await accept(service, "run", { n: 6 });
  const running = async () => (await service.find(endless))?.status === "running";
  expect([await running(), isAnswered, sentTo("before").length]).toEqual([true, false, 1]);
  await clock.skip(WAIT_SECONDS * 1000);
  const adopted = await impatient;
  expect([adopted.status, adopted.headers.get("preference-applied")]).toEqual([202, `wait=${WAIT_SECONDS}`]);
  expect(await running()).toBe(true);
  writeFileSync(path.join(service.storageDir, `go-${round}`), "");
  expect(await service.ended(held)).toMatchObject({ status: "success" });
  await clock.skip((GRACE_SECONDS - WAIT_SECONDS) * 1000);
  expect(await service.ended(endless)).toMatchObject({ status: "failure", statusCode: 504, attempt: 1 });
  writeFileSync(path.join(service.storageDir, `never-${round}`), "");
  const ends = {
    [scheduled]: 1,
    [held]: 2,
    [queued]: 4,
    [adopted.json.run_id]: 5,
    [later]: 6,
    [afterwards]: 1,
  };
  for (const [id, n] of Object.entries(ends)) {
    const ended = await service.ended(id);
    expect(ended).toMatchObject({ status: "success", result: resultOf(n), attempt: 1 });
    const { createdAt, startedAt: began, completedAt, queueTimeMs, runtimeMs, responseTimeMs } = ended;
    expect([createdAt, began, completedAt].map(String).toSorted()).toEqual([createdAt, began, completedAt]);
    // No jump is part of them.
    for (const span of [queueTimeMs, runtimeMs, responseTimeMs]) {
      expect([id, span !== null && span >= 0 && span < HOUR_MS]).toEqual([id, true]);
    }
  }
  expect(sentTo("before")).toHaveLength(1);
  // The spread is to the later side.
  await clock.skip(1.1 * RETRY_SECONDS * 1000);
  await until("the second attempt was made", () => sentTo("before").length === 2, target.news);
}

async function accept(
  service: KillableService,
  functionName: string,
  body: object,
  query = "",
): Promise<string> {
  const { status, json } = await service.post(body, { functionName, query: `?async=true${query}` });
  expect(status).toBe(202);
  return json.run_id as string;
}

/** How many attempts at a run's webhook are recorded. */
async function attempts({ baseUrl, projectId, token }: KillableService, id: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  const answer = await fetch(`${baseUrl}/v2/projects/${projectId}/deliveries/${id}`, { headers });
  if (answer.status !== 200) return 0;
  return ((await answer.json()) as { item: { attemptCount: number } }).item.attemptCount;
}
