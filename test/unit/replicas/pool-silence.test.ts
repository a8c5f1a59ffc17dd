import { expect, test } from "vitest";
import { HEARTBEAT_MS } from "../../../src/engines/heartbeat.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { PoolByHand } from "./hand-pool.ts";
import type { HandReplica } from "./hand-replica.ts";

const STOPPED = { atMs: 0, isStopped: true, threads: new Map() };

/** Rounds, each after the service has listened to its replicas, until that is so. */
async function rounds(site: PoolByHand, what: string, holds: () => boolean): Promise<void> {
  await until(what, () => {
    site.clock.advance(HEARTBEAT_MS);
    return holds();
  });
}

/** It says nothing any more, and the pool knows. */
async function fallsSilent(site: PoolByHand, replica: HandReplica, place: number): Promise<void> {
  replica.isDumb = true;
  await rounds(site, "it is silent", () => [...site.pool.replicas][place]?.isSilent === true);
}

verifies("replica.silent.computing", "a silent replica is given no call until it speaks again", async () => {
  const site = await PoolByHand.open({ maxReplicas: 2, minReplicas: 2 });
  const silent = await site.ready(0);
  const other = await site.ready(1, 2);
  await fallsSilent(site, silent, 0);
  const [first, second] = site.submitAll(2);
  await other.hears("CALL", first!.call);
  expect([second!.call.holder, silent.told.some((word) => word.startsWith("CALL"))]).toEqual([null, false]);
  await rounds(site, "it was silent for long", () => site.clock.elapsedMs > 60_000);
  silent.pong();
  await silent.hears("CALL", second!.call);
  await site.answer(silent, second!);
  await site.answer(other, first!);
  expect([silent.kills, site.exits]).toEqual([0, []]);
});

test("its free slots count as taken: whoever waits has another replica started", async () => {
  const site = await PoolByHand.open({ maxReplicas: 2, replicaConcurrency: 3, cooldownSeconds: 3600 });
  const held = site.submit();
  const silent = await site.ready(0);
  await silent.hears("CALL", held.call);
  await fallsSilent(site, silent, 0);
  expect(site.seats.started).toHaveLength(1);
  const waiting = site.submit();
  expect([site.seats.started.length, waiting.call.holder]).toEqual([2, null]);
  await site.answer(await site.ready(1, 2), waiting);
});

verifies("replica.silent.dead", "a stopped one is ended with its call, and replaced", async () => {
  const site = await PoolByHand.open({ maxReplicas: 1 });
  const held = site.submit();
  const stopped = await site.ready(0);
  await stopped.hears("CALL", held.call);
  stopped.isDumb = true;
  stopped.look = STOPPED;
  await rounds(site, "it is ended", () => stopped.kills > 0);
  const detail = "it was stopped and did not answer for 5 s";
  expect(await site.ended(held)).toEqual({ kind: "died", detail });
  expect(site.exits).toEqual([detail]);
  const next = site.submit();
  await site.answer(await site.ready(1), next);
});

test("one that is to leave and cannot is ended without waiting for its time", async () => {
  const site = await PoolByHand.open({ cooldownSeconds: 1, responseGracePeriodSeconds: 3600 });
  const made = site.submit();
  const replica = await site.ready(0);
  await site.answer(replica, made);
  replica.isDumb = true;
  replica.look = STOPPED;
  // It does not end by itself.
  await rounds(site, "it was told to stop", () => replica.told.includes("STOP 0"));
  await rounds(site, "it is ended", () => replica.kills > 0);
  expect(site.clock.elapsedMs).toBeLessThan(3600_000);
});

test("one whose cooldown ended while it was silent is stopped when it speaks again", async () => {
  const site = await PoolByHand.open({ maxReplicas: 2, cooldownSeconds: 10 });
  const made = site.submit();
  const replica = await site.ready(0);
  await site.answer(replica, made);
  await fallsSilent(site, replica, 0);
  await rounds(site, "its cooldown is over", () => site.clock.elapsedMs > 15_000);
  expect(replica.told).not.toContain("STOP 0");
  replica.pong();
  await replica.hears("STOP");
  replica.exit();
  await until("it is gone", () => site.pool.replicas.size === 0);
});
