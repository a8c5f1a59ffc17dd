import { expect } from "vitest";
import type { testDatabases } from "../databases.ts";
import type { TestApp, TestService } from "../service.ts";
import { FILLER, HUNGRY, SMALL } from "../walls/greedy-apps.ts";
import { remoteService } from "./remote-service.ts";

export const OUT_OF_MEMORY = [502, "out_of_memory"];
const GOOD = "def run(n):\n    return n + 1\n";

/** A service whose apps run on machines of others, and are held to their limits there. */
export async function greedySeats(
  databases: ReturnType<typeof testDatabases>,
  apps: Record<string, TestApp>,
  flags: Record<string, unknown> = {},
): Promise<TestService> {
  return (await remoteService(databases, apps, { flags, isShared: true })).on;
}

/** A memory bomb is ended with its reason, and its neighbour notices nothing. */
export async function expectBombEnds(
  databases: ReturnType<typeof testDatabases>,
  fork: string,
  isolation: string,
): Promise<void> {
  const toml = `${SMALL}[deployment]\nfork = "${fork}"\n`;
  const apps = { bomb: { main: HUNGRY, toml }, sibling: { main: GOOD } };
  const on = await greedySeats(databases, apps, { isolation });
  const state = { isOver: false };
  const bomb = on.call("bomb", {}, { functionName: "eat" }).finally(() => (state.isOver = true));
  for (let calls = 0; !state.isOver || calls < 20; calls++) {
    const answer = await on.call("sibling", { n: calls });
    expect([answer.status, answer.json.result]).toEqual([200, calls + 1]);
  }
  const { status, json } = await bomb;
  expect([status, json.code]).toEqual(OUT_OF_MEMORY);
  expect(json.message).toContain("memory = 0.2 GB");
  expect((await on.call("bomb", {}, { functionName: "live" })).json.result).toBe(true);
}

/** The same of one that fills its folder for temporary files. */
export async function expectFillerEnds(databases: ReturnType<typeof testDatabases>): Promise<void> {
  const flags = { isolation: "process", maxScratch: "30MB" };
  const on = await greedySeats(databases, { filler: { main: FILLER }, sibling: { main: GOOD } }, flags);
  const [answer, other] = await Promise.all([
    on.call("filler", { folder: "scratch" }, { functionName: "fill" }),
    on.call("sibling", { n: 1 }),
  ]);
  expect([answer.status, answer.json.code]).toEqual([502, "app_crashed"]);
  expect(answer.json.message).toContain("its temporary files took more than 30000000 bytes");
  expect([other.status, other.text]).toEqual([200, expect.stringContaining('"result":2')]);
  expect((await on.call("filler", {}, { functionName: "live" })).json.result).toBe(true);
}
