import { expect, onTestFinished } from "vitest";
import type { DatabaseFault } from "./database-faults.ts";
import { FaultCallers, type Stretch, type Submitted } from "./fault-callers.ts";
import type { KillableService } from "./killable-service.ts";
import { LEDGER_APP, Ledger } from "./ledger.ts";
import { until } from "./until.ts";

/** An app that writes every async execution down, and a function for sync callers that does nothing. */
export const WITNESS_APP = `${LEDGER_APP}\ndef plain(n):\n    return n\n`;

/** How often a fault comes, and how long it lasts at least: its answers and looks, and its time. */
export type TableForm = {
  readonly rounds: number;
  readonly stretchMs: number;
  readonly calls: number;
  readonly padBytes?: number;
};

/** So many calls, and its first ones no longer count. */
const WARM_CALLS = 100;

/** A row of the table: what a fault did to everybody. */
export type FaultRow = {
  readonly fault: string;
  readonly "sync during": string;
  readonly "calls/s before": number;
  readonly during: number;
  readonly "during / before": number;
  readonly "async during": string;
  readonly "async at its end": string;
  readonly readyz: string;
  readonly management: string;
  readonly "longest ms": number;
  readonly "metrics during": string;
  readonly "accepts again after ms": number;
};

type Round = {
  readonly before: Stretch;
  readonly during: Stretch;
  readonly after: Stretch;
  readonly metrics: string;
  readonly backMs: number;
};

/** Brings a fault upon a service under load, and asserts all that it may not do to anybody. */
export async function sufferFault(
  service: KillableService,
  fault: DatabaseFault,
  form: TableForm,
): Promise<{ row: FaultRow; log: ReadonlyMap<string, number> }> {
  const servicePid = service.command.pid;
  const logFrom = service.command.stderr.length;
  const rounds: Round[] = [];
  const callers = new FaultCallers(service, form.padBytes);
  try {
    const first = callers.begin();
    await until("the service is warm", () => {
      callers.check();
      return first.syncCalls >= WARM_CALLS;
    });
    for (let n = 0; n < form.rounds; n++) rounds.push(await suffer(service, fault, callers, form));
  } finally {
    await callers.stop();
  }
  const stretches = rounds.flatMap(({ before, during, after }) => [before, during, after]);
  // Every sync call with a token seen before.
  expect(new Set(stretches.flatMap(({ answers }) => [...answers.keys()]))).toEqual(new Set(["200"]));
  const tally = await settleAccounts(
    service,
    stretches.flatMap(({ submitted }) => submitted),
  );
  for (const { syncIds } of stretches) {
    for (const id of syncIds) expect(await service.ended(id)).toMatchObject({ status: "success" });
  }
  await until(
    "every record is stored",
    async () => (await metric(service, "millrace_records_waiting")) === 0,
  );
  expect(await metric(service, "millrace_runs_lost_total")).toBe(0);
  expect(service.command.pid).toBe(servicePid);
  return { row: rowOf(fault, rounds, tally), log: logged(service.command.stderr.slice(logFrom)) };
}

async function suffer(
  service: KillableService,
  fault: DatabaseFault,
  callers: FaultCallers,
  { stretchMs, calls }: TableForm,
): Promise<Round> {
  const isLong = (stretch: Stretch): boolean => {
    callers.check();
    return stretch.lengthMs >= stretchMs && stretch.syncCalls >= calls;
  };
  const before = callers.begin();
  await until(`all is well before: ${fault.name}`, () => isLong(before) && accepts(before));
  const during = callers.begin();
  const heal = healing(fault);
  await fault.begin();
  // Everybody who asks meanwhile is answered meanwhile, and whoever asks whether it can accept is told the truth.
  await until(`everybody has met: ${fault.name}`, () => {
    const refusals = during.submitted.filter(({ status }) => status !== 202);
    return (
      isLong(during) && refusals.length > 0 && during.looks.length > 0 && during.looks.at(-1)!.ready === 503
    );
  });
  const metrics = await metricsNow(service);
  const after = callers.begin();
  await heal();
  const healed = callers.begin();
  await until(`it is over: ${fault.name}`, () => {
    callers.check();
    return accepts(healed);
  });
  return { before, during: merged(during, after), after: healed, metrics, backMs: healed.lengthMs };
}

/** Ends the fault, at the latest with the test: nothing can be stopped that waits for a database for ever. */
function healing(fault: DatabaseFault): () => Promise<void> {
  let isHealed = false;
  const heal = async (): Promise<void> => {
    if (isHealed) return;
    isHealed = true;
    await fault.heal();
  };
  onTestFinished(heal);
  return heal;
}

/** The way back belongs to the fault, for what was asked on it. */
function merged(during: Stretch, healing: Stretch): Stretch {
  during.submitted.push(...healing.submitted);
  for (const answer of healing.answers.keys()) if (answer !== "200") during.count(answer);
  return during;
}

function accepts({ submitted, looks }: Stretch): boolean {
  const look = looks.at(-1);
  return submitted.some(({ status }) => status === 202) && look?.ready === 200 && look.management === 200;
}

/** Nothing that was accepted is lost, nothing that was refused is executed, nothing is executed twice. */
async function settleAccounts(
  service: KillableService,
  submitted: readonly Submitted[],
): Promise<Record<string, number>> {
  const tally: Record<string, number> = {};
  const count = (word: string): void => {
    tally[word] = (tally[word] ?? 0) + 1;
  };
  for (const { status, code, id } of submitted) {
    if (status === 202) {
      expect(await service.ended(id)).toMatchObject({ status: "success" });
      count("accepted, ended once");
    } else if (code === "in_doubt") {
      await until(`it is known what became of ${id}`, async () => isSettled(await service.find(id)));
      count((await service.find(id)) === null ? "in doubt, never was" : "in doubt, ended");
    } else {
      expect([id, status, code]).toEqual([id, 503, "storage_unavailable"]);
      // Its place was taken, if it was in doubt for a moment: so that it cannot appear later.
      const found = await service.find(id);
      if (found) expect(found).toMatchObject({ status: "failure", error: { code } });
      count("refused, never was");
    }
  }
  const ledger = Ledger.read(service);
  for (const { status, code, id } of submitted) {
    const found = code === "in_doubt" ? await service.find(id) : null;
    const times = status === 202 || found?.status === "success" ? 1 : 0;
    expect([id, code, ledger.begun(id), ledger.ended(id)]).toEqual([id, code, times, times]);
  }
  return tally;
}

function isSettled(found: Awaited<ReturnType<KillableService["find"]>>): boolean {
  return found === null || (found.status !== "queued" && found.status !== "running");
}

async function metricsText({ baseUrl, token }: KillableService): Promise<string> {
  const response = await fetch(`${baseUrl}/metrics`, { headers: { authorization: `Bearer ${token}` } });
  expect(response.status).toBe(200);
  return await response.text();
}

async function metric(service: KillableService, name: string): Promise<number> {
  const line = (await metricsText(service)).split("\n").find((each) => each.startsWith(`${name} `));
  return Number(line?.split(" ")[1]);
}

/** What the figures of an operator say of the storage. */
async function metricsNow(service: KillableService): Promise<string> {
  const lines = (await metricsText(service)).split("\n");
  const told = lines.filter(
    (line) => /^millrace_(?:storage_|records_waiting)/.test(line) && !line.endsWith(" 0"),
  );
  return told.map((line) => line.replace("millrace_", "").replaceAll('"', "")).join(", ");
}

/** How often the service logged what. */
function logged(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const line of text.split("\n")) {
    if (!line.startsWith("{")) continue;
    const { level, msg } = JSON.parse(line) as { level: string; msg: string };
    counts.set(`${level}: ${msg}`, (counts.get(`${level}: ${msg}`) ?? 0) + 1);
  }
  return counts;
}

function rowOf({ name }: DatabaseFault, rounds: readonly Round[], tally: Record<string, number>): FaultRow {
  const during = rounds.map((round) => round.during);
  const looks = during.flatMap((stretch) => stretch.looks);
  return {
    fault: name,
    "sync during": `${sum(during.map(({ syncCalls }) => syncCalls))} × 200`,
    "calls/s before": Math.round(median(rounds.map(({ before }) => before.callsPerSecond))),
    during: Math.round(median(during.map(({ callsPerSecond }) => callsPerSecond))),
    "during / before":
      Math.round(
        100 * median(rounds.map(({ before, during: it }) => it.callsPerSecond / before.callsPerSecond)),
      ) / 100,
    "async during": words(totals(during.map((stretch) => stretch.outcomes()))),
    "async at its end": words(tally),
    readyz: [...new Set(looks.map(({ ready, says }) => `${ready} ${says}`))].join("; "),
    management: words(totals(looks.map(({ management }) => ({ [management]: 1 })))),
    "longest ms": Math.round(Math.max(...during.map(({ slowestMs }) => slowestMs))),
    "metrics during": rounds.at(-1)!.metrics,
    "accepts again after ms": Math.round(median(rounds.map(({ backMs }) => backMs))),
  };
}

function totals(counts: readonly Record<string, number>[]): Record<string, number> {
  const all: Record<string, number> = {};
  for (const each of counts) for (const [name, n] of Object.entries(each)) all[name] = (all[name] ?? 0) + n;
  return all;
}

function words(counts: Record<string, number>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${count} × ${name}`)
    .join(", ");
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
}
