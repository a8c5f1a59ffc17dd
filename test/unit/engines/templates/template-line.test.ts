import { PassThrough } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Socket } from "node:net";
import { IdleTemplates, TemplateLine } from "../../../../src/engines/templates/template-line.ts";
import { HandClock } from "../../../support/clocks.ts";

function played(maxBytes: number) {
  const idle = new IdleTemplates(maxBytes);
  const retired: string[] = [];
  const owners = { one: {}, two: {}, three: {} };
  const add = (name: keyof typeof owners, bytes: number): void =>
    idle.add(owners[name], bytes, () => retired.push(name));
  return { add, remove: (name: keyof typeof owners) => idle.remove(owners[name]), retired };
}

test("idle templates within their share of memory are kept", () => {
  const { add, retired } = played(100);
  add("one", 50);
  add("two", 50);
  expect(retired).toEqual([]);
});

test("beyond it the oldest goes, and goes once", () => {
  const { add, retired } = played(100);
  add("one", 60);
  add("two", 60);
  add("three", 10);
  expect(retired).toEqual(["one"]);
});

test("one that works again does not count", () => {
  const { add, remove, retired } = played(100);
  add("one", 60);
  remove("one");
  add("two", 60);
  expect(retired).toEqual([]);
});

test("a template that is being ended stays so, even if it becomes ready then", async () => {
  const told: string[] = [];
  const process = {
    exited: new Promise<never>(() => {}),
    kill: () => void told.push("killed"),
    vitals: () => null,
    usage: async () => null,
    residentBytes: async () => 0,
    noteImported: () => void told.push("imported"),
  };
  const nothing = (): void => {};
  const line = new TemplateLine(process, new HandClock(), new IdleTemplates(), 0, {
    onReady: nothing,
    onSingle: nothing,
    elsewhere: () => ({ ...process }),
    onOver: () => told.push("over"),
    onFault: (fault) => told.push(fault),
    onSilence: nothing,
    onError: (error) => told.push(String(error)),
  });
  const socket = new PassThrough();
  line.template.attach(socket as unknown as Socket);
  line.start({ id: "r-one", ticket: "ticket" }).kill();
  socket.push(`${JSON.stringify({ ready: { pid: 1, forks: true, reason: null, functions: [] } })}\n`);
  await setImmediate();
  line.detach();
  expect(told).toEqual(["over", "killed", "imported"]);
});
