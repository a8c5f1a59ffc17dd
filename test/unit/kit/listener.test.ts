import { EventEmitter, once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { AddressRanges } from "../../../src/kit/ip-addresses.ts";
import { ConnectionGate, UnauthenticatedConnections } from "../../../src/kit/listener.ts";
import type { Doing, Refusal, Visitor } from "../../../src/kit/listener.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";
import { until } from "../../support/until.ts";

/** Enough of a socket: an address and an end. */
class Line extends EventEmitter {
  readonly remoteAddress: string;
  isOpen = true;

  constructor(remoteAddress: string) {
    super();
    this.remoteAddress = remoteAddress;
  }

  destroy(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.emit("close");
  }
}

type Guest = { readonly line: Line; readonly visitor: Visitor; doing: Doing };

class Site {
  readonly clock = new HandClock();
  readonly turnedAway: { readonly guest: Guest | undefined; readonly why: Refusal }[] = [];
  readonly gate: ConnectionGate;
  readonly #guests = new Map<unknown, Guest>();

  constructor({ maxConnections = 100, maxPerAddress = 10 } = {}) {
    this.gate = new ConnectionGate({
      maxConnections,
      maxPerAddress,
      trusted: new AddressRanges(["10.0.0.0/8"]),
      clock: this.clock,
      turnAway: (socket, why) => {
        this.turnedAway.push({ guest: this.#guests.get(socket), why });
        socket.destroy();
      },
    });
  }

  come(address = "192.0.2.1", doing: Doing = "silent"): Guest {
    const line = new Line(address);
    const guest: { line: Line; doing: Doing; visitor: Visitor } = {
      line,
      doing,
      visitor: this.gate.arrive(line as unknown as Socket, () => guest.doing),
    };
    this.#guests.set(line, guest);
    return guest;
  }

  many(count: number, address?: string, doing?: Doing): Guest[] {
    return Array.from({ length: count }, () => this.come(address, doing));
  }
}

verifies("listener.per-address", "an address that is full gets no more, and the others do", () => {
  const site = new Site();
  site.many(10);
  expect(site.come().visitor.refusal).toBe("address");
  expect(site.come("192.0.2.2").visitor.refusal).toBeNull();
  expect(site.come("2001:db8:1:2:3::1").visitor.refusal).toBeNull();
});

test("of IPv6 a whole network is one address", () => {
  const site = new Site();
  for (let host = 1; host <= 10; host++) site.come(`2001:db8:1:2::${host}`);
  expect(site.come("2001:db8:1:2:ffff::1").visitor.refusal).toBe("address");
  expect(site.come("2001:db8:1:3::1").visitor.refusal).toBeNull();
});

verifies("listener.per-address", "who shows a token counts for the address no more", () => {
  const site = new Site();
  for (const { visitor } of site.many(50)) expect(visitor.know("p-one")).toBe(true);
  expect(site.come().visitor.refusal).toBeNull();
});

verifies("listener.room", "who has long been silent makes room for who comes, the oldest first", () => {
  const site = new Site();
  const [busy, idle, ...silent] = [
    site.come("192.0.2.1", "busy"),
    site.come("192.0.2.1", "idle"),
    ...site.many(8),
  ];
  site.clock.advance(1_000);
  expect(site.come().visitor.refusal).toBeNull();
  expect(site.turnedAway.map(({ guest }) => guest)).toEqual(silent);
  expect([busy, idle].map((guest) => guest?.line.isOpen)).toEqual([true, true]);
  site.many(7);
  // All of them are young, but for one that is idle.
  expect(site.come().visitor.refusal).toBeNull();
  expect(site.turnedAway.at(-1)?.guest).toBe(idle);
  expect(site.come().visitor.refusal).toBe("address");
  expect(busy?.line.isOpen).toBe(true);
});

verifies(
  "listener.room",
  "a full listener turns away the silent, then the idle, and never who is answered",
  () => {
    const site = new Site({ maxConnections: 6, maxPerAddress: 6 });
    const known = site.many(2, "192.0.2.7", "idle");
    for (const { visitor } of known) visitor.know("p-one");
    const busy = site.many(2, "192.0.2.8", "busy");
    const silent = site.many(2, "192.0.2.9");
    expect(site.come("192.0.2.10").visitor.refusal).toBe("listener");
    site.clock.advance(1_000);
    const next = site.many(2, "192.0.2.11", "busy");
    expect(site.turnedAway.map(({ guest, why }) => [guest, why])).toEqual(
      silent.map((guest) => [guest, "listener"]),
    );
    const more = site.many(2, "192.0.2.12", "busy");
    expect(known.map(({ line }) => line.isOpen)).toEqual([false, false]);
    expect(site.come("192.0.2.13").visitor.refusal).toBe("listener");
    const kept = [...busy, ...next, ...more];
    expect(kept.map(({ line, visitor }) => [line.isOpen, visitor.refusal])).toEqual(
      kept.map(() => [true, null]),
    );
    expect(site.gate.size).toBe(6);
  },
);

verifies("listener.owners", "of a listener that is nearly full nobody gets more than half", () => {
  const site = new Site({ maxConnections: 100, maxPerAddress: 100 });
  const knownBy = (owner: string, count: number) =>
    site.many(count, "192.0.2.1", "busy").map(({ visitor }) => visitor.know(owner));
  expect(knownBy("p-one", 80)).not.toContain(false);
  expect(knownBy("p-one", 1)).toEqual([false]);
  expect(knownBy("p-two", 19)).not.toContain(false);
});

test("who is refused and says nothing is gone soon; of very many most are gone at once", () => {
  const site = new Site({ maxPerAddress: 1 });
  site.come();
  const refused = site.many(100);
  expect(refused.map(({ visitor }) => visitor.refusal)).toEqual(refused.map(() => "address"));
  expect(refused.filter(({ line }) => line.isOpen)).toHaveLength(64);
  site.clock.advance(1_000);
  expect(refused.filter(({ line }) => line.isOpen)).toEqual([]);
  expect(site.clock.pending).toBe(0);
});

verifies(
  "listener.trusted-proxies",
  "a proxy's connections are not counted, the addresses it forwards are",
  () => {
    const site = new Site();
    for (const { visitor } of site.many(50, "10.0.0.1"))
      expect([visitor.refusal, visitor.address]).toEqual([null, null]);
    const leaves = Array.from({ length: 10 }, () => site.gate.enter("192.0.2.1"));
    expect(leaves).not.toContain(null);
    expect(site.gate.enter("192.0.2.1")).toBeNull();
    expect(site.gate.enter("192.0.2.2")).not.toBeNull();
    leaves[0]?.();
    leaves[0]?.();
    expect(site.gate.enter("192.0.2.1")).not.toBeNull();
    expect(site.gate.enter("192.0.2.1")).toBeNull();
  },
);

test("nothing is remembered of who has left", () => {
  const site = new Site();
  for (let round = 0; round < 5; round++) {
    const guests = site.many(10);
    for (const { visitor } of guests.slice(0, 5)) visitor.know("p-one");
    for (const { line } of guests) line.destroy();
    // One that is known only after it has gone.
    for (const { visitor } of guests) visitor.know("p-one");
  }
  expect(site.gate.size).toBe(0);
  expect(site.many(10).map(({ visitor }) => visitor.refusal)).toEqual(Array(10).fill(null));
});

test("a look that finds nothing is not repeated for every newcomer", () => {
  const site = new Site({ maxConnections: 1_000, maxPerAddress: 1_000 });
  let looks = 0;
  for (let place = 0; place < 1_000; place++) {
    const line = new Line("192.0.2.1");
    site.gate.arrive(line as unknown as Socket, () => {
      looks += 1;
      return "busy";
    });
  }
  site.clock.advance(1_000);
  site.many(500, "192.0.2.2");
  expect(looks).toBe(1_000);
});

/** A listener for whom everybody stays a stranger, up to four. */
async function listening() {
  const strangers = new UnauthenticatedConnections(4);
  const met: Socket[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    strangers.add(socket, socket);
    met.push(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const callers: Socket[] = [];
  onTestFinished(() => {
    for (const socket of [...callers, ...met]) socket.destroy();
    server.close();
  });
  /** The service's side of a connection that comes from that address. */
  const callFrom = async (localAddress: string): Promise<Socket> => {
    const { port } = server.address() as AddressInfo;
    const count = met.length;
    callers.push(connect({ port, host: "127.0.0.1", localAddress }).on("error", () => {}));
    await until("it is met", () => met.length > count);
    return met[count]!;
  };
  return { strangers, callFrom };
}

test("a flood from one address turns away its own oldest, and nobody else", async () => {
  const { strangers, callFrom } = await listening();
  const patient = await callFrom("127.0.0.1");
  const flood: Socket[] = [];
  for (let count = 0; count < 12; count += 1) flood.push(await callFrom("127.0.0.2"));
  expect(patient.destroyed).toBe(false);
  expect(flood.map(({ destroyed }) => destroyed)).toEqual(flood.map((_, at) => at < 9));
  expect(strangers.size).toBe(4);
});

test("who is known, or gone, takes no place", async () => {
  const { strangers, callFrom } = await listening();
  const known = await callFrom("127.0.0.1");
  strangers.release(known);
  const gone = await callFrom("127.0.0.1");
  gone.destroy();
  await until("it is forgotten", () => strangers.size === 0);
  for (let count = 0; count < 5; count += 1) await callFrom("127.0.0.1");
  expect(known.destroyed).toBe(false);
  strangers.close();
  await until("none is left", () => strangers.size === 0);
  expect(known.destroyed).toBe(false);
});
