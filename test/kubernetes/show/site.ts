import { Client } from "pg";
import { expect, onTestFinished } from "vitest";
import { History } from "../../support/cluster/history.ts";
import type { testDatabases } from "../../support/databases.ts";
import { KillableService } from "../../support/killable-service.ts";
import { podEnvironment } from "../../support/kubernetes/pod-service.ts";
import { TestNamespace } from "../../support/kubernetes/real-cluster.ts";
import type { TestApp } from "../../support/service.ts";
import { Load } from "./load.ts";

/** A service in a process of its own whose replicas are pods, and what its database has seen. */
export type Site = {
  readonly service: KillableService;
  readonly namespace: TestNamespace;
  readonly history: History;
};

/** Starts one with one app, `app`. */
export async function openSite(
  databases: ReturnType<typeof testDatabases>,
  app: TestApp,
  env: Record<string, string> = {},
): Promise<Site> {
  const namespace = await TestNamespace.make();
  const database = await databases.fresh("postgres");
  const client = new Client({ connectionString: database.databaseUrl ?? "" });
  await client.connect();
  onTestFinished(() => client.end());
  const history = await History.begin(client);
  const settings = { ...(await podEnvironment(namespace)), ...env };
  const service = await KillableService.deploy(database, app, settings, false);
  expect(await service.start()).toBe(true);
  return { service, namespace, history };
}

/** What happened to an app that was called while something was broken. */
export type Blow = {
  readonly load: Load;
  /** From the fault's beginning to its end. */
  readonly from: number;
  readonly to: number;
  readonly recoveryMs: number;
};

const RECOVERY_MS = 10_000;
const CALM = 50;

/**
 * Breaks something while an app is called, and lets go of it: `act` resolves when its cause has ended. Nothing may be
 * lost, stuck or left behind, no call may fail before or afterwards, and all is well 10 s later.
 */
export async function strike({ service, namespace, history }: Site, act: () => Promise<void>): Promise<Blow> {
  const load = new Load(service);
  await load.untilAnswered(CALM);
  const from = Date.now();
  await act();
  const to = Date.now();
  const recoveryMs = await load.recoveryMs();
  await load.untilAnswered(CALM);
  await load.stop();
  await load.keep();
  const { answered, accepted, failures } = load;
  console.log({
    answered,
    accepted: accepted.size,
    failed: failures.length,
    lastedMs: to - from,
    recoveryMs,
  });
  expect(load.wrong).toEqual([]);
  expect(load.unexplained(from, to + recoveryMs)).toEqual([]);
  expect(recoveryMs).toBeLessThanOrEqual(RECOVERY_MS);
  await expectOneEnd(history, [...accepted.keys()]);
  await service.stop();
  await namespace.untilEmpty();
  return { load, from, to, recoveryMs };
}

/** Every run that was accepted has ended, and no run has ended twice. */
export async function expectOneEnd(history: History, accepted: readonly string[]): Promise<void> {
  const ends = await history.ends();
  expect(accepted.filter((id) => !ends.has(id.replaceAll("-", "")))).toEqual([]);
  expect([...ends].filter(([, count]) => count !== 1)).toEqual([]);
}
