import { request } from "node:http";
import { Readable } from "node:stream";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { type DatabaseKind, openDatabase } from "../async-database.ts";
import { residentBytesOf, peakBytesOf, resetPeakBytesOf } from "../proc.ts";
import { progress } from "../progress.ts";
import { APP, type MillraceSite, startSite } from "./millrace-runner.ts";
import { measureRound, type QueueRound } from "./rounds.ts";

/** A batch of lines, from its first byte to its last result. Memory is the service's own. */
export type LinesFigures = {
  readonly database: string;
  /** Null: it was measured. */
  readonly problem: string | null;
  readonly lines: number;
  readonly acceptedPerSecond: number;
  readonly endedPerSecond: number;
  /** The most that it held while it accepted a tenth of the lines, all of them, and while it executed them. */
  readonly tenthBytes: number;
  readonly acceptBytes: number;
  readonly executeBytes: number;
};

/** A batch's record, as far as this needs it. */
type Batch = {
  readonly id: string;
  readonly status: string;
  readonly total: number;
  readonly succeeded: number;
};
type Answer = { readonly status: number; readonly text: string; readonly location: string };

/** Said of a service without batches, which is no fault of the measurement. */
export const NO_BATCHES = "the service has no batches of lines";
const POLL_MS = 20;
const END_MS = 1_200_000;
const PORTION = 1_000;
/** The bench's own share of a slow machine must not be the bound: lines are made before the clock starts. */
const LINE = '{"input":{}}\n';

/** Whether the service takes batches of lines. */
export async function hasBatches(site: MillraceSite): Promise<boolean> {
  const { status, location } = await upload(site, 1);
  if (status !== 202) return false;
  await ended(site, location, 1);
  return true;
}

/** Uploads a batch and waits until all of its lines have ended well, as a round. */
export async function linesToEnd(site: MillraceSite, lines: number): Promise<QueueRound> {
  const { service, database, ledger } = site;
  const roles = { service: [service.pid], database: database.pids(), load: [] };
  return await measureRound({ roles, ledger }, async () => {
    const { location } = await accepted(site, lines);
    await ended(site, location, lines);
    return lines;
  });
}

/** Measures one batch of so many lines, after one of a tenth of them. */
export async function measureLines(kind: DatabaseKind, lines: number): Promise<LinesFigures> {
  const nothing = { acceptedPerSecond: 0, endedPerSecond: 0, tenthBytes: 0, acceptBytes: 0, executeBytes: 0 };
  progress(`starting ${kind} and the service`);
  const database = await openDatabase(kind);
  const site = await startSite(database, "lines");
  const { pid } = site.service;
  const none = { database: database.version, lines, ...nothing };
  const stop = async () => {
    await site.check();
    await site.stop();
    await database.stop();
  };
  if (!(await hasBatches(site))) {
    await stop();
    return { ...none, problem: NO_BATCHES };
  }
  progress(`${database.version}: a batch of ${lines / 10} lines`);
  resetPeakBytesOf(pid);
  const first = await accepted(site, lines / 10);
  const tenthBytes = Math.max(peakBytesOf(pid), residentBytesOf(pid));
  await ended(site, first.location, lines / 10);
  progress(`${database.version}: a batch of ${lines} lines`);
  resetPeakBytesOf(pid);
  const startedAt = performance.now();
  const { location } = await accepted(site, lines);
  const acceptMs = performance.now() - startedAt;
  const acceptBytes = peakBytesOf(pid);
  resetPeakBytesOf(pid);
  await ended(site, location, lines);
  const endMs = performance.now() - startedAt;
  const executeBytes = peakBytesOf(pid);
  const problem = await resultsProblem(site, location, lines);
  await stop();
  const perSecond = (ms: number) => (lines * 1000) / ms;
  const [acceptedPerSecond, endedPerSecond] = [perSecond(acceptMs), perSecond(endMs)];
  return { ...none, problem, acceptedPerSecond, endedPerSecond, tenthBytes, acceptBytes, executeBytes };
}

async function accepted(site: MillraceSite, lines: number): Promise<Answer> {
  const answer = await upload(site, lines);
  if (answer.status !== 202)
    throw new Error(`status ${answer.status} of a batch: ${answer.text.slice(0, 200)}`);
  return answer;
}

async function ended(site: MillraceSite, location: string, lines: number): Promise<void> {
  const deadline = performance.now() + END_MS;
  for (;;) {
    const response = await fetch(location, { headers: site.service.headers });
    const batch = (await response.json()) as Batch;
    if (batch.status === "completed") {
      if (batch.succeeded !== lines) throw new Error(`${batch.succeeded} of ${lines} lines succeeded`);
      site.accepted += lines;
      return;
    }
    if (performance.now() > deadline) throw new Error(`a batch is ${batch.status} after ${END_MS / 1000} s`);
    await pause(POLL_MS);
  }
}

/** Every line must be in the results, once. */
async function resultsProblem(site: MillraceSite, location: string, lines: number): Promise<string | null> {
  progress(`reading ${lines} results`);
  const response = await fetch(`${location}/results?order=input`, { headers: site.service.headers });
  let index = 0;
  for await (const line of createInterface({ input: Readable.fromWeb(response.body!) })) {
    const result = JSON.parse(line) as { readonly index: number };
    if (result.index !== index) return `the result of line ${index} is that of line ${result.index}`;
    index += 1;
  }
  return index === lines ? null : `${index} of ${lines} results came`;
}

/** Sends that many lines in one body; resolves with the answer. */
async function upload({ service }: MillraceSite, lines: number): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const headers = { ...service.headers, "Content-Type": "application/jsonl" };
  const sent = request(`${service.callUrl(APP)}/batches`, { method: "POST", headers, agent: false });
  sent.on("error", reject);
  sent.on("response", (response) => {
    let text = "";
    response.setEncoding("utf8").on("data", (part: string) => (text += part));
    response.on("error", reject);
    const { statusCode: status = 0, headers: answered } = response;
    response.on("end", () => resolve({ status, text, location: answered.location ?? "" }));
  });
  const portion = LINE.repeat(PORTION);
  const body = function* () {
    for (let left = lines; left > 0; left -= PORTION) yield left < PORTION ? LINE.repeat(left) : portion;
  };
  Readable.from(body()).pipe(sent);
  return await promise;
}
