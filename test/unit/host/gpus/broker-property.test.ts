import * as fc from "fast-check";
import { expect } from "vitest";
import { GpuBroker } from "../../../../src/host/gpus/broker.ts";
import { createLog } from "../../../../src/kit/log.ts";
import type { Gpu, GpuWish } from "../../../../src/model/gpu.ts";
import { HandClock } from "../../../support/clocks.ts";
import {
  GB,
  madeGpu,
  matches,
  PlayedGpus,
  type PlayedReplica,
  PlayedTenant,
  quiet,
  wishFor,
} from "../../../support/gpus/played-gpus.ts";
import { verifies } from "../../../verifies.ts";

const HOLD_MS = 10_000;
/** Longer than any wait of the broker. */
const LONG_MS = 12_000;

type Rules = {
  readonly gpus: readonly Gpu[];
  readonly holdMs: number;
  readonly sharesAcrossProjects: boolean;
  readonly knows: PlayedGpus["knows"];
};

/** A machine whose every grant and eviction is compared with what the test knows of it. */
class Machine {
  readonly source: PlayedGpus;
  readonly clock = new HandClock();
  readonly broker: GpuBroker;
  readonly tenants: PlayedTenant[] = [];
  readonly #rules: Rules;
  readonly faults: string[] = [];

  constructor(rules: Rules) {
    this.#rules = rules;
    this.source = new PlayedGpus(rules.gpus);
    this.source.knows = rules.knows;
    this.source.see();
    const log = createLog("silent");
    this.broker = new GpuBroker({
      ...rules,
      source: this.source,
      parentOf: this.source.parentOf,
      clock: this.clock,
      log,
      matches,
    });
  }

  tenant(app: string, projectId = "p-one", minimum = 0): PlayedTenant {
    const tenant = new PlayedTenant(this.broker, this.clock, app, projectId);
    tenant.minimum = minimum;
    tenant.onGrant = (replica) => this.#judgeGrant(replica);
    tenant.onEvict = (replica) => this.#judgeEviction(replica);
    this.tenants.push(tenant);
    return tenant;
  }

  replicas(...states: PlayedReplica["state"][]): PlayedReplica[] {
    return this.tenants.flatMap(({ replicas }) => replicas.filter(({ state }) => states.includes(state)));
  }

  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 1_000) {
      this.clock.advance(Math.min(left, 1_000));
      await quiet();
    }
  }

  /** Everything that is being stopped is gone, with all that it held. */
  async finish(): Promise<void> {
    for (const replica of this.replicas("ending")) replica.tenant.ends(replica, this.source);
    for (const uuid of this.source.used.keys()) this.source.hold(uuid, -1, 0);
    await quiet();
    await this.pass(2_000);
  }

  /** Whose share of a GPU is taken as far as the world is concerned: their processes have not ended. */
  on(uuid: string): PlayedReplica[] {
    return this.replicas("running", "ending").filter(({ grant }) =>
      grant?.gpus.some((gpu) => gpu.uuid === uuid),
    );
  }

  #judgeGrant(replica: PlayedReplica): void {
    const { wish, tenant, grant } = replica;
    const { gpus } = grant!;
    const must = (holds: boolean, what: string): void => {
      if (!holds)
        this.faults.push(`${tenant.app} was granted ${gpus.map(({ uuid }) => uuid).join()}: ${what}`);
    };
    must(new Set(gpus.map(({ uuid }) => uuid)).size === wish.count, "not so many GPUs");
    must(new Set(gpus.map(({ model }) => model)).size === 1, "several models");
    for (const { uuid, memoryBytes } of gpus) {
      const now = this.source.current().gpus.find((gpu) => gpu.uuid === uuid);
      must(now !== undefined && now.fault === null, "out of service");
      must(
        wish.models.some((model) => matches(model, gpus[0]!)),
        "another model",
      );
      const others = this.on(uuid).filter((other) => other !== replica);
      if (wish.memoryBytes === null) must(others.length === 0, "not alone");
      must(
        others.every(({ wish }) => wish.memoryBytes !== null),
        "beside a whole grant",
      );
      if (!this.#rules.sharesAcrossProjects)
        must(
          others.every((other) => other.tenant.projectId === tenant.projectId),
          "beside another project",
        );
      const shares = [replica, ...others].map(({ wish }) => wish.memoryBytes ?? memoryBytes);
      must(shares.reduce((sum, bytes) => sum + bytes, 0) <= memoryBytes, "more than there is");
      this.#judgeMeasured(replica, uuid, must);
    }
  }

  #judgeMeasured(replica: PlayedReplica, uuid: string, must: (holds: boolean, what: string) => void): void {
    const reading = this.source.readings().find((each) => each.uuid === uuid);
    const memoryBytes = replica.grant!.gpus.find((gpu) => gpu.uuid === uuid)!.memoryBytes;
    if (!reading || reading.freeBytes === null || !reading.processes) return;
    if (replica.wish.memoryBytes === null)
      return must(reading.freeBytes >= 0.9 * memoryBytes, "nine tenths are not free");
    let free = reading.freeBytes;
    for (const other of this.on(uuid)) {
      if (other === replica || other.state !== "running") continue;
      const used = reading.processes.find(({ pid }) => pid === other.pid)?.usedBytes ?? 0;
      free -= Math.max(0, (other.wish.memoryBytes ?? memoryBytes) - used);
    }
    must(free >= replica.wish.memoryBytes, "measured, there is not enough");
  }

  #judgeEviction(replica: PlayedReplica): void {
    const { tenant } = replica;
    const must = (holds: boolean, what: string): void => {
      if (!holds) this.faults.push(`${tenant.app} was evicted: ${what}`);
    };
    const running = tenant.in("running");
    must(replica.state === "running" && replica.idleSinceMs !== null, "not idle");
    // What was granted in the same moment counts; its tenant does not know yet.
    const granted = tenant.in("waiting").filter(({ claim }) => claim.obstacle() === null);
    must(running.length + granted.length > tenant.minimum, "of the minimum");
    const lastMs = Math.max(...running.map(({ grantedMs }) => grantedMs));
    must(this.clock.monotonic() - lastMs >= this.#rules.holdMs, "just started");
    must(
      this.replicas("waiting").some((waiting) => waiting.tenant !== tenant),
      "for no other app",
    );
  }
}

const anyGpus = fc
  .array(fc.record({ model: fc.constantFrom("H100", "L4"), gb: fc.constantFrom(40, 80) }), {
    minLength: 1,
    maxLength: 4,
  })
  .map((rows) => rows.map(({ model, gb }, index) => madeGpu(index, { model, memoryBytes: gb * GB })));

const anyWish: fc.Arbitrary<GpuWish> = fc
  .record({
    gb: fc.constantFrom(null, 10, 20, 20, 30, 40, 60),
    models: fc.constantFrom(["ANY"], ["H100"], ["L4", "H100"]),
    count: fc.constantFrom(1, 1, 1, 2, 3),
  })
  .map(({ gb, models, count }) => wishFor(gb, models, count));

const anyTenants = fc.array(
  fc.record({ wish: anyWish, project: fc.constantFrom("p-one", "p-one", "p-two"), minimum: fc.nat(2) }),
  { minLength: 2, maxLength: 5 },
);

/** How often each happens, in comparison. */
const EVENTS = {
  start: 3,
  idle: 3,
  busy: 1,
  takes: 2,
  stop: 1,
  crash: 1,
  ends: 2,
  late: 1,
  fails: 1,
  heals: 1,
  vanishes: 1,
  outside: 1,
  cancel: 1,
  pass: 2,
  minimum: 1,
};

type Event = keyof typeof EVENTS;

const anyEvent = fc.oneof(
  ...Object.entries(EVENTS).map(([event, weight]) => ({
    weight,
    arbitrary: fc.constant(event as Event),
  })),
);

const anyEvents = fc.array(fc.record({ event: anyEvent, pick: fc.nat(999) }), {
  minLength: 20,
  maxLength: 120,
});

/** One thing that happens on a machine. `pick` chooses where. */
async function happens(
  machine: Machine,
  event: Event,
  pick: number,
  wishes: ReadonlyMap<PlayedTenant, GpuWish>,
  whole: readonly Gpu[],
): Promise<void> {
  const { source, tenants } = machine;
  const one = <Item>(items: readonly Item[]): Item | undefined => items[pick % items.length];
  const running = one(machine.replicas("running"));
  const ending = one(machine.replicas("ending"));
  const gpu = one(whole)!;
  switch (event) {
    case "start": {
      const tenant = one(tenants)!;
      if (tenant.in("waiting").length < 2) tenant.start(wishes.get(tenant)!);
      break;
    }
    case "idle":
      if (running) running.tenant.becomesIdle(running);
      break;
    case "busy":
      if (running) running.idleSinceMs = null;
      break;
    case "takes":
      // Now and then a little more than its share.
      for (const { uuid, memoryBytes } of running?.grant?.gpus ?? [])
        source.hold(uuid, running!.pid, ((pick % 12) / 10) * (running!.wish.memoryBytes ?? memoryBytes));
      break;
    case "stop":
      if (running) running.tenant.stop(running);
      break;
    case "crash":
      if (!running) break;
      running.tenant.ends(running, source);
      running.claim.release(Promise.resolve());
      break;
    case "ends":
      ending?.tenant.ends(ending, source);
      break;
    case "late":
      // The process is gone, and the driver shows its memory a while longer.
      if (!ending) break;
      for (const { uuid } of ending.grant!.gpus)
        source.hold(uuid, -1, source.used.get(uuid)?.get(ending.pid) ?? 0);
      ending.tenant.ends(ending, source);
      break;
    case "fails":
      source.change(
        source
          .current()
          .gpus.map((each) => (each.uuid === gpu.uuid ? { ...each, fault: "off the bus" } : each)),
      );
      break;
    case "vanishes":
      source.change(source.current().gpus.filter(({ uuid }) => uuid !== gpu.uuid));
      break;
    case "heals":
      source.change(whole);
      break;
    case "outside":
      source.hold(gpu.uuid, 7, pick % 3 === 0 ? 0 : (pick % 40) * GB);
      break;
    case "cancel":
      one(machine.replicas("waiting"))?.claim.cancel();
      break;
    case "pass":
      machine.clock.advance(pick * 10);
      break;
    case "minimum":
      one(tenants)!.minimum = pick % 3;
      break;
    default:
      return event satisfies never;
  }
  await quiet();
}

/** Whether evictions that are allowed would make room for a wish, were all replicas idle. Tries all sets. */
function couldServe(machine: Machine, { wish, tenant }: PlayedReplica, rules: Rules): boolean {
  const running = machine.replicas("running");
  const others = running.filter((replica) => replica.tenant !== tenant);
  for (let bits = 0; bits < 2 ** others.length; bits++) {
    const gone = new Set(others.filter((_, index) => bits & (2 ** index)));
    const isAllowed = machine.tenants.every((each) => {
      const left = each.in("running").filter((replica) => !gone.has(replica)).length;
      return left >= Math.min(each.minimum, each.in("running").length);
    });
    if (!isAllowed) continue;
    const free = machine.source.current().gpus.filter((gpu) => {
      if (!wish.models.some((model) => matches(model, gpu))) return false;
      const there = machine.on(gpu.uuid).filter((replica) => !gone.has(replica));
      if (wish.memoryBytes === null) return there.length === 0;
      if (!rules.sharesAcrossProjects && there.some((each) => each.tenant.projectId !== tenant.projectId))
        return false;
      // It may have taken more than its share.
      const taken = there.map((each) =>
        Math.max(
          each.wish.memoryBytes ?? gpu.memoryBytes,
          machine.source.used.get(gpu.uuid)?.get(each.pid) ?? 0,
        ),
      );
      return taken.reduce((left, bytes) => left - bytes, gpu.memoryBytes) >= wish.memoryBytes;
    });
    for (const group of Map.groupBy(free, ({ model }) => model).values())
      if (group.length >= wish.count) return true;
  }
  return false;
}

const anyRules = fc.record({
  gpus: anyGpus,
  holdMs: fc.constantFrom(0, HOLD_MS),
  sharesAcrossProjects: fc.boolean(),
  knows: fc.constantFrom("everything" as const, "everything" as const, "memory" as const, "nothing" as const),
});

verifies(
  ["gpu.safe", "gpu.live"],
  "starts, ends, crashes, evictions, failures and late releases in any order",
  async () => {
    await fc.assert(
      fc.asyncProperty(anyRules, anyTenants, anyEvents, async (rules, plans, events) => {
        const machine = new Machine(rules);
        const wishes = new Map<PlayedTenant, GpuWish>();
        for (const [index, { wish, project, minimum }] of plans.entries())
          if (machine.broker.never(wish) === null)
            wishes.set(machine.tenant(`app${index}`, project, minimum), wish);
        if (wishes.size === 0) return;
        for (const { event, pick } of events) {
          await happens(machine, event, pick, wishes, rules.gpus);
          expect(machine.faults).toEqual([]);
        }

        // Quiet: everything works, every replica is idle as soon as it has its grant.
        machine.source.change(rules.gpus);
        for (const { uuid } of rules.gpus) machine.source.hold(uuid, 7, 0);
        const settle = async (): Promise<void> => {
          for (const replica of machine.replicas("running"))
            if (replica.idleSinceMs === null) replica.tenant.becomesIdle(replica);
          await machine.pass(LONG_MS);
          await machine.finish();
        };
        for (let left = machine.replicas("waiting").length + 3; left > 0; left--) await settle();
        // What still waits cannot be served, as all sets of evictions show.
        for (const replica of machine.replicas("waiting"))
          expect([replica.claim.obstacle(), couldServe(machine, replica, rules)]).toEqual([
            expect.any(String),
            false,
          ]);

        // Everything ends: all are served in their turn.
        for (let left = machine.replicas("waiting").length + 1; left > 0; left--) {
          for (const replica of machine.replicas("running")) replica.tenant.stop(replica);
          await machine.finish();
        }
        expect(machine.replicas("waiting")).toEqual([]);
        for (const replica of machine.replicas("running")) replica.tenant.stop(replica);
        await machine.finish();

        // Nothing is left: all of the machine can be granted at once.
        expect(machine.broker.use()).toEqual([]);
        const last = machine.tenant("last");
        for (const group of Map.groupBy(rules.gpus, ({ model }) => model).values())
          last.start(wishFor(null, [group[0]!.model], group.length));
        await quiet();
        expect(last.in("waiting")).toEqual([]);
        expect(machine.faults).toEqual([]);
        machine.broker.close();
        expect(machine.clock.pending).toBe(0);
      }),
      { numRuns: 100 },
    );
  },
);

verifies("gpu.starvation", "a wish is served when all that was granted before it has ended", async () => {
  const small = fc.constantFrom(10, 20, 30);
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 3 }),
      fc.array(small, { minLength: 1, maxLength: 10 }),
      fc.record({ gb: fc.constantFrom(null, 40, 60, 80), count: fc.integer({ min: 1, max: 3 }) }),
      fc.array(fc.record({ gb: small, ends: fc.nat(9) }), { minLength: 5, maxLength: 30 }),
      async (size, before, { gb, count }, after) => {
        const gpus = Array.from({ length: size }, (_, index) => madeGpu(index));
        const rules = { gpus, holdMs: 0, sharesAcrossProjects: false, knows: "everything" as const };
        const machine = new Machine(rules);
        before.forEach((each, index) => machine.tenant(`before${index}`).start(wishFor(each)));
        await quiet();
        const large = machine.tenant("large").start(wishFor(gb, ["ANY"], Math.min(count, size)));
        await quiet();
        const first = (...states: PlayedReplica["state"][]): PlayedReplica[] =>
          machine.replicas(...states).filter(({ tenant }) => tenant.app.startsWith("before"));
        // Small ones keep coming, and none of them ever ends or is idle.
        for (const [index, { gb, ends }] of after.entries()) {
          machine.tenant(`after${index}`).start(wishFor(gb));
          await quiet();
          const one = first("running")[ends];
          if (one) one.tenant.stop(one);
          await machine.finish();
        }
        while (first("running", "waiting").length > 0) {
          for (const one of first("running")) one.tenant.stop(one);
          await machine.finish();
        }
        expect(large.state).toBe("running");
        expect(machine.faults).toEqual([]);
        machine.broker.close();
      },
    ),
    { numRuns: 30 },
  );
});

verifies("gpu.deadlock", "apps whose minimums fit all reach them, whoever has more than that", async () => {
  const plan = fc.record({ count: fc.integer({ min: 1, max: 2 }), minimum: fc.nat(2), more: fc.nat(2) });
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.array(plan, { minLength: 2, maxLength: 4 }),
      fc.array(fc.nat(99), { minLength: 10, maxLength: 10 }),
      async (size, plans, order) => {
        const gpus = Array.from({ length: size }, (_, index) => madeGpu(index));
        const rules = { gpus, holdMs: HOLD_MS, sharesAcrossProjects: false, knows: "everything" as const };
        const machine = new Machine(rules);
        const wishOf = (count: number): GpuWish => wishFor(null, ["H100"], count);
        const minimums = plans.map(({ count, minimum }, index) => {
          return { app: `app${index}`, projectId: "p-one", wish: wishOf(count), replicas: minimum };
        });
        if (machine.broker.fits(minimums).length > 0) return;
        const starts = plans.flatMap(({ count, minimum, more }, index) => {
          if (count > size) return [];
          const tenant = machine.tenant(`app${index}`, "p-one", minimum);
          return Array.from({ length: minimum + more }, () => () => tenant.start(wishOf(count)));
        });
        for (let turn = 0; starts.length > 0; turn++) {
          starts.splice(order[turn % order.length]! % starts.length, 1)[0]!();
          await quiet();
        }
        const areReached = (): boolean =>
          machine.tenants.every((tenant) => tenant.in("running").length >= tenant.minimum);
        for (let rounds = 40; rounds > 0 && !areReached(); rounds--) {
          for (const replica of machine.replicas("running"))
            if (replica.idleSinceMs === null) replica.tenant.becomesIdle(replica);
          await machine.pass(LONG_MS);
          await machine.finish();
        }
        expect(areReached()).toBe(true);
        expect(machine.faults).toEqual([]);
        machine.broker.close();
      },
    ),
    { numRuns: 30 },
  );
});
