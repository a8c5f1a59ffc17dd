import { Agent } from "node:http";
import { type Sample, submitAndFollow } from "../async-dispatch.ts";
import type { Target } from "../load-client.ts";
import { type MillraceRunning } from "../subjects/millrace.ts";
import { APP } from "./millrace-runner.ts";

/** Runs of one caller, one after the other: from its request until each began, and until its result was there. */
export type CallerTimes = { readonly startMs: readonly number[]; readonly endMs: readonly number[] };

/** How long each run takes that waits or is waited for: long beside everything else that happens to it. */
const WORK_MS = 20;
const BODY = JSON.stringify({ ms: WORK_MS });
/** A run that does not begin for that long is as good as one that never does. */
const PATIENCE_MS = 30_000;

/** The headers of a new service account that may call. */
export async function newCaller(
  { projectUrl, headers }: MillraceRunning,
  name: string,
): Promise<Readonly<Record<string, string>>> {
  const response = await fetch(`${projectUrl}/service-accounts`, {
    method: "POST",
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify({ name, role: "run" }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`status ${response.status} of an account: ${text.slice(0, 200)}`);
  return { Authorization: `Bearer ${(JSON.parse(text) as { token: string }).token}` };
}

/** Where a caller submits a run that takes a while. */
export function workOf(service: MillraceRunning, headers: Readonly<Record<string, string>>): Target {
  return { url: `${service.callUrl(APP, "work")}?async=true`, headers, body: BODY };
}

/**
 * Submits that many runs, each after the end of the one before. The first that has not begun in `PATIENCE_MS` is the last,
 * and counts as one that began then.
 */
export async function callOneByOne(target: Target, runs: number): Promise<CallerTimes> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const samples: Sample[] = [];
  try {
    while (samples.length < runs && !samples.some(({ requestUs }) => requestUs >= PATIENCE_MS * 1000))
      samples.push(await submitAndFollow(target, agent, PATIENCE_MS));
  } finally {
    agent.destroy();
  }
  return {
    startMs: samples.map(({ requestUs }) => requestUs / 1000),
    endMs: samples.map(({ endedUs }) => endedUs / 1000),
  };
}
