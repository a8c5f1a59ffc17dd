import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { sharedPool } from "../../support/pool.ts";

const DEF = `
import os, time

def double(n: list[int], by: list[int] = 2, run_id=None):
    return [{"n": each * factor, "size": len(n)} for each, factor in zip(n, by)]
`;

const settings = (concurrency: number): string => `
[scaling]
max_replicas = 1
replica_concurrency = ${concurrency}
[batching.double]
`;

describe.each([
  ["def, one at a time", DEF, 1],
  ["def, several at a time", DEF, 4],
  ["def beside async def", `${DEF}\nasync def unused(): pass\n`, 4],
  ["async def", DEF.replaceAll("def ", "async def "), 1],
  ["async def, several at a time", DEF.replaceAll("def ", "async def "), 4],
])("%s", (_, main, concurrency) => {
  const shared = sharedPool({ main, toml: settings(concurrency) });

  test("smoke", { timeout: 20_000 }, async () => {
    const pool = shared();
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => pool.value("double", { n })));
    console.log(JSON.stringify(answers));
    expect(answers.map((each) => (each as { n: number }).n)).toEqual(Array.from({ length: 50 }, (_, n) => 2 * n));
  });
});
