import { writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { DATABASE_KINDS, testDatabases } from "../support/databases.ts";
import { KillableService } from "../support/killable-service.ts";
import { LEDGER_APP, Ledger, resultOf } from "../support/ledger.ts";
import { until } from "../support/until.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { MODES, WebhookTarget } from "../support/webhook-target.ts";

const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;
const GRACE_MS = 8_000;
const WAIT_SECONDS = 2;
/** A busy machine may be late, but no deadline of an hour can pass for one of seconds. */
const LATE_MS = 20_000;
const CLOCK = pathToFileURL(path.join(REPOSITORY, "test", "support", "movable-clock.ts")).href;

const APP = {
  main: LEDGER_APP,
  toml: `[scaling]\nmax_replicas = 2\nresponse_grace_period = "${GRACE_MS / 1000}s"\n`,
};
const ASYNC = { query: "?async=true" };

const databases = testDatabases();

for (const kind of DATABASE_KINDS) {
  test(`jumps of the wall clock break no deadline, lease, schedule or token on ${kind}`, async () => {
    const target = await WebhookTarget.open();
    const env = { MILLRACE_WEBHOOK_ALLOW: "127.0.0.0/8" };
    const service = await KillableService.deploy(await databases.fresh(kind), APP, env);
    const clock = new MovableClock(service);
    expect(await service.start(undefined, clock.env)).toBe(true);
    await expectTimesKept(clock, target, [HOUR_MS, 10 * YEAR_MS]);
    await expectTimesKept(clock, target, [-HOUR_MS, 0, HOUR_MS, -24 * HOUR_MS]);
    const { stderr } = service.command;
    expect(stderr).not.toContain("goes back to the queue");
    expect(stderr).not.toContain("was refused");
    await service.stop();
    const ledger = Ledger.read(service);
    expect([...ledger.begins.values()].filter((count) => count !== 1)).toEqual([]);
  }, 120_000);
}

/** Begins everything that has a deadline, moves the clock, and sees each deadline come when it should. */
async function expectTimesKept(clock: MovableClock, target: WebhookTarget, jumps: number[]): Promise<void> {
  const [firstJump = 0, ...otherJumps] = jumps;
  const { service } = clock;
  const round = String(target.received.length);
  const withWebhook = async (name: string) => {
    const url = encodeURIComponent(`${target.url}/${round}/${name}`);
    return await accept(service, "run", { n: 1 }, `&webhookEndpoint=${url}`);
  };
  const sentTo = (name: string) => target.received.filter(({ path: sent }) => sent === `/${round}/${name}`);
  // The first attempt fails: the second is due 5 s later.
  target.behave = (response, { path: sent }) =>
    MODES[sentTo(sent.split("/").at(-1)!).length === 1 ? 500 : "ok"](response);
  const scheduled = await withWebhook("before");
  await until("the first attempt was made", () => sentTo("before").length === 1);

  await clock.setAhead(firstJump);
  const afterwards = await withWebhook("after");
  await until("a response made after the jump was sent", () => sentTo("after").length > 0);

  const held = await accept(service, "hold", { n: 2, name: `go-${round}` });
  const endless = await accept(service, "hold", { n: 3, name: `never-${round}` });
  const begun = (id: string) => Ledger.read(service).begun(id) === 1;
  await until("both run", () => begun(held) && begun(endless));
  const startedAt = performance.now();
  const timed = service.ended(endless).then((run) => ({ run, ms: performance.now() - startedAt }));
  const queued = await accept(service, "run", { n: 4 });
  const impatient = service
    .post({ n: 5 }, { headers: { prefer: `wait=${WAIT_SECONDS}` } })
    .then((answer) => ({ ...answer, ms: performance.now() - startedAt }));
  for (const ms of otherJumps) await clock.setAhead(ms);

  const later = await accept(service, "run", { n: 6 });
  const adopted = await impatient;
  expect([adopted.status, adopted.headers.get("preference-applied")]).toEqual([202, `wait=${WAIT_SECONDS}`]);
  expect(adopted.ms).toBeGreaterThan(WAIT_SECONDS * 1000 - 100);
  writeFileSync(path.join(service.storageDir, `go-${round}`), "");
  const { run, ms } = await timed;
  writeFileSync(path.join(service.storageDir, `never-${round}`), "");
  expect(run).toMatchObject({ status: "failure", statusCode: 504, attempt: 1 });
  // From hand-over, which was a little before it began.
  expect(ms).toBeGreaterThan(GRACE_MS - 1_000);
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
    for (const span of [queueTimeMs, runtimeMs, responseTimeMs]) expect(span).toBeGreaterThanOrEqual(0);
    expect(responseTimeMs).toBeLessThan(2 * LATE_MS);
  }
  await until("the second attempt was made", () => sentTo("before").length === 2);
  const [first, second] = sentTo("before");
  expect(second!.at - first!.at).toBeGreaterThan(4_000);
}

async function accept(
  service: KillableService,
  functionName: string,
  body: object,
  query = "",
): Promise<string> {
  const { status, json } = await service.post(body, { functionName, query: `${ASYNC.query}${query}` });
  expect(status).toBe(202);
  return json.run_id as string;
}

/** The wall clock of a service. */
class MovableClock {
  readonly service: KillableService;
  /** For its start. */
  readonly env: Record<string, string>;
  readonly #file: string;
  #moves = 0;

  constructor(service: KillableService) {
    this.service = service;
    this.#file = path.join(service.database.dataDir, "clock");
    this.env = { NODE_OPTIONS: `--import ${CLOCK}`, MOVABLE_CLOCK: this.#file };
  }

  /** Sets it so far ahead of the true time. */
  async setAhead(ms: number): Promise<void> {
    const { command } = this.service;
    writeFileSync(this.#file, String(ms));
    process.kill(command.pid, "SIGUSR2");
    await command.printed(new RegExp(`^clock moved ${(this.#moves += 1)}$`, "m"));
  }
}
