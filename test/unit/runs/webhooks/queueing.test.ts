import { expect, test } from "vitest";
import { Hosts, Waiting } from "../../../../src/runs/webhooks/queueing.ts";

const LIMITS = { attempts: 2, bodyBytes: 100, failures: 3, restMs: 1_000, maxRestMs: 3_000 };
const A = "https://a.example";
const B = "https://b.example";

/** One attempt at a time that gets no answer. */
function fail(hosts: Hosts, times: number, now: number): void {
  for (let i = 0; i < times; i += 1) {
    expect(hosts.take(A, 0, now)).toBe(true);
    hosts.release(A, 0, false, now);
  }
}

test("a host has so many places, and another host its own", () => {
  const hosts = new Hosts(LIMITS);
  expect([hosts.take(A, 0, 0), hosts.take(A, 0, 0), hosts.take(A, 0, 0)]).toEqual([true, true, false]);
  expect(hosts.take(B, 0, 0)).toBe(true);
  hosts.release(A, 0, true, 0);
  expect(hosts.take(A, 0, 0)).toBe(true);
});

test("large bodies share a host's bytes, but one of any size may go", () => {
  const hosts = new Hosts(LIMITS);
  expect(hosts.take(A, 1_000, 0)).toBe(true);
  expect(hosts.take(A, 1, 0)).toBe(false);
  hosts.release(A, 1_000, true, 0);
  expect([hosts.take(A, 60, 0), hosts.take(A, 60, 0)]).toEqual([true, false]);
});

test("a host that does not answer is left to rest, then tried by one attempt at a time", () => {
  const hosts = new Hosts(LIMITS);
  fail(hosts, 3, 0);
  expect(hosts.restsUntil(A)).toBe(1_000);
  expect(hosts.take(A, 0, 999)).toBe(false);
  expect([hosts.take(A, 0, 1_000), hosts.take(A, 0, 1_000)]).toEqual([true, false]);
  hosts.release(A, 0, true, 1_001);
  expect(hosts.restsUntil(A)).toBe(0);
  expect([hosts.take(A, 0, 1_001), hosts.take(A, 0, 1_001)]).toEqual([true, true]);
});

test("rests grow up to the longest", () => {
  const hosts = new Hosts(LIMITS);
  fail(hosts, 3, 0);
  fail(hosts, 1, 1_000);
  expect(hosts.restsUntil(A)).toBe(3_000);
  fail(hosts, 1, 3_000);
  expect(hosts.restsUntil(A)).toBe(6_000);
});

test("failures that began before the rest do not lengthen it", () => {
  const hosts = new Hosts({ ...LIMITS, attempts: 9 });
  for (let i = 0; i < 9; i += 1) hosts.take(A, 0, 0);
  for (let i = 0; i < 9; i += 1) hosts.release(A, 0, false, 10);
  expect(hosts.restsUntil(A)).toBe(1_010);
});

test("an answer between failures begins the count again; an attempt broken off counts as nothing", () => {
  const hosts = new Hosts(LIMITS);
  fail(hosts, 2, 0);
  hosts.take(A, 0, 0);
  hosts.release(A, 0, null, 0);
  expect(hosts.restsUntil(A)).toBe(0);
  hosts.take(A, 0, 0);
  hosts.release(A, 0, true, 0);
  fail(hosts, 2, 0);
  expect(hosts.restsUntil(A)).toBe(0);
});

test("those who wait for a host go in order, and neither one host nor all fill the memory", () => {
  const waiting = new Waiting(2, 3);
  const ticket = (id: string) => ({ id, projectId: "p-a", origin: A, bodyBytes: 1 });
  expect([waiting.add(A, ticket("1")), waiting.add(A, ticket("2")), waiting.add(A, ticket("3"))]).toEqual([
    true,
    true,
    false,
  ]);
  expect([waiting.add(B, ticket("4")), waiting.add(B, ticket("5"))]).toEqual([true, false]);
  expect(waiting.keys()).toEqual([A, B]);
  expect(waiting.first(A)?.id).toBe("1");
  waiting.removeFirst(A);
  expect(waiting.first(A)?.id).toBe("2");
  waiting.removeFirst(A);
  expect(waiting.first(A)).toBe(null);
  expect(waiting.keys()).toEqual([B]);
  expect(waiting.add(B, ticket("5"))).toBe(true);
});
