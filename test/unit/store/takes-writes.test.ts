import { expect } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import { storeOn } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

/** A database that takes writes up to a size, and counts those that only ask. */
class Backend {
  maxBytes = Number.POSITIVE_INFINITY;
  proofs: unknown[] = [];

  run(name: string, packed: unknown): Promise<unknown> {
    if (name === "meta.prove") this.proofs.push(packed);
    const bytes = name === "meta.prove" ? Number(packed) : 100;
    return bytes > this.maxBytes ? Promise.reject(new AppError("storage_unavailable")) : Promise.resolve("");
  }

  probe(): Promise<void> {
    return Promise.resolve();
  }

  abandon(): void {}

  close(): Promise<void> {
    return Promise.resolve();
  }
}

verifies(
  "faults.postgres.readyz",
  "a refused write is believed until one of some size is taken, and who asks at the same time shares one",
  async () => {
    const backend = new Backend();
    const store = storeOn(backend, { kind: "postgres", clock: new HandClock() });
    const write = async () => await store.meta.setIfAbsent({ key: "a", value: "b" });
    expect(await store.takesWrites()).toBe(true);
    expect(backend.proofs).toEqual([]);

    backend.maxBytes = 50;
    await expect(write()).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(await Promise.all([store.takesWrites(), store.takesWrites()])).toEqual([false, false]);
    expect(backend.proofs).toHaveLength(1);

    // Room for something small, as on a disk that is full: the next large one would be refused.
    backend.maxBytes = 1_000;
    await write();
    expect(await store.takesWrites()).toBe(false);

    backend.maxBytes = Number.POSITIVE_INFINITY;
    expect(await store.takesWrites()).toBe(true);
    expect(await store.takesWrites()).toBe(true);
    expect(backend.proofs).toHaveLength(3);
    await store.close();
  },
);

verifies("lease.apart", "a sign of life is tried while all other writes are refused", async () => {
  const clock = new HandClock();
  let asked = 0;
  const silent = {
    run: (name: string) => {
      asked += 1;
      // It gives up by itself, as the others do much later.
      if (name === "nodes.renew") return Promise.reject(new AppError("storage_unavailable"));
      return new Promise<never>(() => {});
    },
    probe: () => new Promise<never>(() => {}),
    abandon: () => {},
    close: () => Promise.resolve(),
  };
  const store = storeOn(silent, { kind: "postgres", clock });
  const sign = { owner: "a", leaseMs: 6_000, url: null, details: null, isLeaving: false };
  const write = async () => await store.meta.setIfAbsent({ key: "a", value: "b" });
  const given = write().catch((error: unknown) => error);
  await clock.passDuring(given);
  expect([await given, store.isSilent("write")]).toMatchObject([{ code: "in_doubt" }, true]);
  const before = asked;
  await expect(write()).rejects.toMatchObject({ code: "storage_unavailable" });
  expect(asked).toBe(before);
  for (const count of [1, 2]) {
    await expect(store.nodes.renew(sign)).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(asked).toBe(before + count);
  }
});
