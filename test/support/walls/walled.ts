import type { TestContext } from "vitest";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { probeRungs } from "../../../src/host/walls/probe.ts";
import { probeNetwork } from "../../../src/host/walls/probe-network.ts";
import type { Offer, Rung } from "../../../src/host/walls/rung.ts";
import { parentOf } from "../process-tree.ts";

/** One that projects may have. */
export const FIRST_USER = 1_900_000_000;

let asked: Promise<Offer> | undefined;

/** What this host gives to whoever runs the tests. */
export async function offered(): Promise<Offer> {
  asked ??= findInterpreter("python3").then(({ path: python }) =>
    probeRungs(python, "/nonexistent", FIRST_USER),
  );
  return await asked;
}

/** Skips the test, and says why, where the host does not give a rung. */
export async function requireOffered(rung: Rung, context: TestContext): Promise<void> {
  const reason = (await offered())[rung];
  if (reason === null) return;
  process.stderr.write(`\nNOT TESTED: this host gives no rung ${rung}: ${reason}\n`);
  context.skip(`this host gives no rung ${rung}: ${reason}`);
}

/** The process that the service itself has started for a replica: its outer keeper. */
export function outerKeeperOf(pid: number, service: number): number {
  const parent = parentOf(pid);
  if (parent <= 1) throw new Error(`${pid} is not below ${service}`);
  return parent === service ? pid : outerKeeperOf(parent, service);
}

/** Skips the test, and says why, where connections behind a rung cannot be judged. */
export async function requireJudged(rung: Rung, context: TestContext): Promise<void> {
  await requireOffered(rung, context);
  const { path: python } = await findInterpreter("python3");
  const reason = await probeNetwork(python, rung, "/nonexistent", FIRST_USER);
  if (reason === null) return;
  process.stderr.write(`\nNOT TESTED: on ${rung} connections cannot be judged: ${reason}\n`);
  context.skip(`on ${rung} connections cannot be judged: ${reason}`);
}
