import { mkdtempSync, rmSync } from "node:fs";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Home } from "../../../src/engines/home.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

async function openHome() {
  const folder = mkdtempSync(path.join(tmpdir(), "home-"));
  const clock = new HandClock();
  const home = await Home.open(folder, clock);
  const callers: Socket[] = [];
  onTestFinished(async () => {
    for (const caller of callers) caller.destroy();
    await home.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const call = (text?: string | Buffer): Socket => {
    const socket = connect(home.address);
    socket.on("error", () => {});
    if (text !== undefined) socket.write(text);
    callers.push(socket);
    return socket;
  };
  const received: { kind: string; socket: Socket; pid: number | null }[] = [];
  const ticket = home.expect((kind, socket, pid) => received.push({ kind, socket, pid }));
  return { home, clock, call, received, ticket };
}

/** Its end, in whichever way it comes. */
async function closeOf(socket: Socket): Promise<void> {
  await new Promise<void>((resolve) => socket.once("close", () => resolve()));
}

verifies("wire.home", "who has a ticket gets in among any number that show none", async () => {
  const { home, call, received, ticket } = await openHome();
  const strangers = Array.from({ length: 1_000 }, () => call("mill"));
  await Promise.all(strangers.map((socket) => once(socket, "connect")));
  call(`millrace 1 wire ${ticket}\n`);
  await until("it is received", () => received.length === 1);
  expect(received[0]?.kind).toBe("wire");
  expect(home.strangerCount).toBeLessThanOrEqual(256);
});

test("a ticket that comes byte by byte has ten seconds for all of them", async () => {
  const { home, clock, call } = await openHome();
  const slow = call("m");
  await until("it is there", () => home.strangerCount === 1);
  const closed = closeOf(slow);
  for (let second = 0; second < 9; second++) {
    slow.write("i");
    clock.advance(1_000);
  }
  expect(home.strangerCount).toBe(1);
  clock.advance(1_000);
  await closed;
  await until("it is forgotten", () => home.strangerCount === 0);
});

test("each kind may show a ticket once, and what follows the preface is kept", async () => {
  const { call, received, ticket } = await openHome();
  const first = call(`millrace 1 stdout ${ticket}\nwords`);
  await until("it is received", () => received.length === 1);
  const again = call(`millrace 1 stdout ${ticket}\n`);
  await closeOf(again);
  const other = call(`millrace 1 stderr ${ticket}\n`);
  await until("another kind is received", () => received.length === 2);
  const words = once(received[0]!.socket, "data");
  received[0]!.socket.resume();
  const [data] = await words;
  expect([String(data), received[1]?.kind]).toEqual(["words", "stderr"]);
  expect([first.destroyed, other.destroyed]).toEqual([false, false]);
});

test.each([
  ["a made-up ticket", `millrace 1 wire ${"0".repeat(32)}\n`],
  ["another version", `millrace 2 wire TICKET\n`],
  ["an unknown kind", `millrace 1 wires TICKET\n`],
  ["a long line", `${"x".repeat(200)}\n`],
  ["a long line without its end", "x".repeat(200)],
  ["a preface behind something", `x\nmillrace 1 wire TICKET\n`],
  ["a process that cannot be", `millrace 1 wire TICKET 0\n`],
  ["a process with a sign", `millrace 1 wire TICKET -1\n`],
  ["two processes", `millrace 1 wire TICKET 1 2\n`],
  ["a process of too many digits", `millrace 1 wire TICKET 12345678901\n`],
  ["bytes that are no text", Buffer.from([0xff, 0x00, 0x0a])],
])("%s is closed without a word", async (_, text) => {
  const { home, call, received, ticket } = await openHome();
  const caller = call(typeof text === "string" ? text.replace("TICKET", ticket) : text);
  let answer = "";
  caller.on("data", (data) => (answer += String(data)));
  await closeOf(caller);
  expect([answer, received]).toEqual(["", []]);
  await until("it is forgotten", () => home.strangerCount === 0);
});

test("an outer keeper says which process it asks for", async () => {
  const { call, received, ticket } = await openHome();
  call(`millrace 1 wire ${ticket} 4711\n`);
  await until("it is received", () => received.length === 1);
  call(`millrace 1 control ${ticket}\n`);
  await until("the other is received", () => received.length === 2);
  expect(received.map(({ kind, pid }) => [kind, pid])).toEqual([
    ["wire", 4711],
    ["control", null],
  ]);
});

test("a ticket that is forgotten is none", async () => {
  const { home, call, received, ticket } = await openHome();
  home.forget(ticket);
  await closeOf(call(`millrace 1 wire ${ticket}\n`));
  expect(received).toEqual([]);
});
