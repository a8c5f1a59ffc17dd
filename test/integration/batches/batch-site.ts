import { expect } from "vitest";
import type { BatchRecord } from "../../../src/shapes/batches.ts";
import type { Answer, CallOptions, TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";

/** A line of results. */
export type ResultLine = {
  readonly id?: string | number;
  readonly index: number;
  readonly run_id: string | null;
  readonly status: string;
  readonly result?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
};

const LINES_TYPE = { "content-type": "application/jsonl" };

/** An app whose function doubles a number, fails, or waits. */
export const MAIN = `
import os, time

def run(n=0):
    with open("ledger", "a") as ledger:
        ledger.write(f"{n}\\n")
    return n * 2

def fail_odd(n=0):
    if n % 2 and not os.path.exists("mended"):
        raise ValueError(f"{n} is odd")
    return n

def hold(n=0):
    while not os.path.exists("go"):
        time.sleep(0.02)
    return n

def letters(n=0):
    yield "a"
    yield {"n": n}
`;

/** Lines with one number each. */
export function numbers(count: number, from = 0): string {
  return Array.from({ length: count }, (_, i) => `{"id":"n${from + i}","input":{"n":${from + i}}}\n`).join(
    "",
  );
}

/** Uploads a batch. */
export async function upload(
  on: TestService,
  app: string,
  lines: string,
  { functionName = "run", suffix = "", headers = {}, ...options }: CallOptions = {},
): Promise<Answer> {
  return await on.call(app, lines, {
    ...options,
    functionName,
    suffix: `/batches${suffix}`,
    headers: { ...LINES_TYPE, ...headers },
  });
}

/** The id of a batch that was accepted. */
export async function accepted(
  on: TestService,
  app: string,
  lines: string,
  options: CallOptions = {},
): Promise<string> {
  const answer = await upload(on, app, lines, options);
  expect([answer.status, answer.text]).toEqual([202, expect.stringContaining('"status":"running"')]);
  return answer.json.id;
}

/** Asks for something of a batch, or of all of them. */
export async function ofBatch(
  on: TestService,
  app: string,
  path = "",
  options: CallOptions = {},
): Promise<Answer> {
  return await on.call(app, "", { method: "GET", ...options, functionName: `batches${path}` });
}

export async function record(on: TestService, app: string, id: string): Promise<BatchRecord> {
  const answer = await ofBatch(on, app, `/${id}`);
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
  return answer.json;
}

/** The batch once it has ended. */
export async function endedBatch(on: TestService, app: string, id: string): Promise<BatchRecord> {
  await until("the batch has ended", async () => (await ofBatch(on, app, `/${id}`)).json?.completedAt);
  return await record(on, app, id);
}

/** What the results give. */
export async function results(
  on: TestService,
  app: string,
  id: string,
  query = "",
): Promise<readonly ResultLine[]> {
  const answer = await ofBatch(on, app, `/${id}/results${query}`);
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/jsonl"]);
  return linesIn(answer.text);
}

export function linesIn(text: string): ResultLine[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as ResultLine);
}
