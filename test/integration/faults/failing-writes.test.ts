import path from "node:path";
import { expect } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { faultDice, type Roll } from "../../support/dice.ts";
import { FAULT_LENGTH } from "../../support/fault-length.ts";
import { FaultyDeploys } from "../../support/faulty-deploys.ts";
import { FaultyStore } from "../../support/faulty-store.ts";
import { expectIntact } from "../../support/intact-database.ts";
import { JudgedCalls } from "../../support/judged-calls.ts";
import { LEDGER_APP, Ledger, resultOf } from "../../support/ledger.ts";
import { type Answer, type CallOptions, type TestService, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const { calls: CALLS, deploys: DEPLOYS } = {
  minimal: { calls: 80, deploys: 0 },
  short: { calls: 1_500, deploys: 12 },
  full: { calls: 10_000, deploys: 80 },
}[FAULT_LENGTH];
const CLIENTS = 8;
/** Of all writes. */
const SHARE = 0.25;
/** After so many calls the time is moved on by a second: that is how long what failed waits for its next try. */
const CALLS_PER_SKIP = 4;
const SKIP_MS = 1_000;
const ASYNC = "?async=true";

const MAIN = `${LEDGER_APP}
def count(n, run_id):
    note("begin", run_id)
    for i in range(n):
        yield "%d " % i + "x" * 2000
    note("end", run_id)

def say(n, run_id):
    note("begin", run_id)
    for i in range(n):
        print(i, run_id)
    note("end", run_id)
    return 2 * n + 1
`;
const APP = { main: MAIN, toml: "[scaling]\nmax_replicas = 2\nreplica_concurrency = 4\n" };

verifies(
  "show.write-errors",
  `of ${CALLS} calls while a quarter of all writes fail each that was accepted ends once, and none that was refused runs`,
  async () => {
    const faulty = new FaultyStore(faultDice());
    const clock = new SkippingClock();
    const flags = { webhookAllow: "127.0.0.0/8" };
    const test = await testService({ app: APP }, flags, { aroundStore: faulty.aroundStore, clock });
    const target = await WebhookTarget.open();
    const load = new Load(test, target, clock, faultDice());
    const deploys = new FaultyDeploys(test, load.calls);
    expect((await test.call("app", { n: 0 })).status).toBe(200);
    faulty.share = SHARE;
    await Promise.all([load.run(CALLS), deploys.run(DEPLOYS)]);
    faulty.share = 0;
    const { calls } = load;
    expect(calls.faults).toEqual([]);
    // Each kind of fault was met, or this proved nothing.
    for (const kind of ["refused", "done unheard", "lost unheard"] as const) {
      expect({ kind, met: faulty.count(kind) > 0 }).toEqual({ kind, met: true });
    }
    expect(calls.accepted.size).toBeGreaterThan(0);
    expect(calls.refused.size).toBeGreaterThan(0);
    await load.expectAllEnded();
    await load.expectDelivered();
    load.expectExecuted();
    if (DEPLOYS > 0) await deploys.expectAllEnded(() => clock.skip(SKIP_MS));
    if (FAULT_LENGTH !== "minimal") {
      const { accepted, answered, refused, inDoubt } = calls;
      const [taken, told, not, open] = [accepted, answered, refused, inDoubt].map(({ size }) => size);
      console.log({ accepted: taken, answered: told, refused: not, inDoubt: open, faults: faulty.count() });
      console.log({ deploys: Object.fromEntries(deploys.became), ...Object.fromEntries(faulty.met) });
    }
    await test.service.stop();
    expectIntact(path.join(test.settings.dataDir, "millrace.db"));
  },
  { minimal: undefined, short: 900_000, full: 3_600_000 }[FAULT_LENGTH],
);

/** Callers of every kind, and what became of their calls. */
class Load {
  readonly calls = new JudgedCalls();
  /** Runs that are forwarded, if they were accepted. */
  readonly #forwarded = new Set<string>();
  readonly #test: TestService;
  readonly #target: WebhookTarget;
  readonly #clock: SkippingClock;
  readonly #roll: Roll;
  #sent = 0;

  constructor(test: TestService, target: WebhookTarget, clock: SkippingClock, roll: Roll) {
    this.#test = test;
    this.#target = target;
    this.#clock = clock;
    this.#roll = roll;
  }

  async run(count: number): Promise<void> {
    const client = async (): Promise<void> => {
      while (this.#sent < count) {
        const n = (this.#sent += 1);
        if (n % CALLS_PER_SKIP === 0) this.#clock.skip(SKIP_MS);
        await this.#callOnce(n);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
  }

  /** Every run that was accepted has ended well; of one in doubt, if there is one, it has ended. */
  async expectAllEnded(): Promise<void> {
    const { accepted, answered, inDoubt, refused } = this.calls;
    for (const [id, n] of accepted) {
      const { json } = await this.#ended(id);
      expect(json).toMatchObject({
        id,
        status: "success",
        statusCode: 200,
        async: true,
        result: resultOf(n),
      });
    }
    for (const id of answered) expect((await this.#ended(id)).json).toMatchObject({ status: "success" });
    for (const id of inDoubt) expect([200, 404]).toContain((await this.#ended(id)).status);
    for (const id of refused.keys()) {
      const { status, json } = await this.#test.ofRun("app", id);
      // The place of one whose commit nobody answered was taken, so that it could not come later.
      if (status !== 404) expect(json).toMatchObject({ status: "failure", startedAt: null });
    }
  }

  /** Nothing was executed twice, nothing that was refused at all. */
  expectExecuted(): void {
    const { settings, service } = this.#test;
    const ledger = Ledger.read({
      storageDir: path.join(settings.dataDir, "storage", service.owner.projectId),
    });
    const { accepted, answered, refused, inDoubt } = this.calls;
    const executed = (ids: Iterable<string>) =>
      [...ids].map((id) => [id, ledger.begun(id), ledger.ended(id)]);
    expect(executed(accepted.keys()).filter(([, begun, ended]) => begun !== 1 || ended !== 1)).toEqual([]);
    expect(executed(answered).filter(([, begun, ended]) => begun !== 1 || ended !== 1)).toEqual([]);
    expect(executed(refused.keys()).filter(([, begun]) => begun !== 0)).toEqual([]);
    expect(executed(inDoubt).filter(([, begun, ended]) => Number(begun) > 1 || begun !== ended)).toEqual([]);
  }

  /** Each forwarded run that was accepted came to its webhook, and no other. */
  async expectDelivered(): Promise<void> {
    const { accepted, inDoubt } = this.calls;
    const wanted = [...this.#forwarded].filter((id) => accepted.has(id));
    const came = (): Set<unknown> =>
      new Set(this.#target.received.map(({ headers }) => headers["webhook-id"]));
    await until("every webhook was sent", () => {
      this.#clock.skip(SKIP_MS);
      const have = came();
      return wanted.every((id) => have.has(id));
    });
    expect([...came()].filter((id) => !accepted.has(String(id)) && !inDoubt.has(String(id)))).toEqual([]);
  }

  async #callOnce(n: number): Promise<void> {
    const forward = `&webhookEndpoint=${encodeURIComponent(this.#target.url)}`;
    const key = { "idempotency-key": `key-${n}` };
    const kinds = [
      () => this.#submit(n, { suffix: ASYNC }),
      () => this.#submit(n, { suffix: ASYNC, functionName: "say" }),
      () => this.#submit(n, { suffix: ASYNC, headers: key }),
      () => this.#submit(n, { suffix: `${ASYNC}${forward}` }, true),
      () => this.#call(n, {}, true),
      () => this.#call(n, { functionName: "count" }, true),
      () => this.#call(n, { headers: key }, false),
      () => this.#call(n, { functionName: "count", headers: { "x-disconnect": "continue" } }, false),
    ];
    await kinds[Math.floor(this.#roll(kinds.length))]?.();
  }

  async #submit(n: number, options: CallOptions, isForwarded = false): Promise<void> {
    const told = toldIn(await this.#test.call("app", { n }, options));
    this.calls.judgeAsync(n, told);
    if (isForwarded) this.#forwarded.add(told.id);
  }

  /** A plain call needs no storage: it is answered whatever fails. */
  async #call(n: number, options: CallOptions, isPlain: boolean): Promise<void> {
    const answer = await this.#test.call("app", { n: n % 100 }, options);
    const told = toldIn(answer);
    if (answer.status === 200) this.calls.answered.add(told.id);
    else if (isPlain) this.calls.fault("a plain call", told);
    else this.calls.judgeRefusal("a call that is stored", told);
  }

  async #ended(id: string): Promise<Answer> {
    let found: Answer | null = null;
    await until(`the run ${id} ends`, async () => {
      this.#clock.skip(SKIP_MS);
      found = await this.#test.ofRun("app", id);
      return found.status === 404 || !["queued", "running"].includes(found.json.status);
    }).catch((error: unknown) => {
      throw new Error(`${String(error)}: ${found?.text}`);
    });
    return found!;
  }
}

function toldIn({ status, headers, json }: Answer) {
  const id = headers.get("x-request-id") ?? "";
  return { id, status, code: String(json?.code ?? ""), message: String(json?.message ?? "") };
}
