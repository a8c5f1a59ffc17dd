import { expect, test } from "vitest";
import { site, uuidsOf } from "../../../support/gpus/broker-site.ts";
import { GB, quiet, wishFor } from "../../../support/gpus/played-gpus.ts";
import { verifies } from "../../../verifies.ts";

verifies(
  "gpu.release.late",
  "memory counts as held until processes are gone and it is seen free",
  async () => {
    const { app, source, pass, lines } = site();
    const one = app("one");
    const replica = one.start(wishFor(60));
    await quiet();
    source.hold("GPU-0", replica.pid, 55 * GB);
    source.see();
    one.stop(replica);
    const next = app("two").start(wishFor(60));
    await pass(5_000);
    expect(next.grant).toBeNull();
    // The process has ended; the driver still lists it, then its memory.
    replica.gone.resolve();
    await pass(1_000);
    expect(next.grant).toBeNull();
    source.end(replica.pid);
    source.hold("GPU-0", -1, 30 * GB);
    await pass(3_000);
    expect(next.grant).toBeNull();
    source.end(-1);
    await pass(1_000);
    expect(uuidsOf(next)).toEqual(["GPU-0"]);
    expect(lines).toEqual([]);
  },
);

verifies(
  "gpu.release.bound",
  "after a bound it counts as free, with a warning, if the processes are gone",
  async () => {
    const { app, source, pass, lines, broker } = site();
    const one = app("one");
    const replica = one.start(wishFor(60));
    await quiet();
    source.hold("GPU-0", replica.pid, 55 * GB);
    one.stop(replica);
    replica.gone.resolve();
    const next = app("two").start(wishFor(60));
    await pass(30_000);
    expect(lines.length).toBe(1);
    expect(lines[0]).toContain("still hold GPU memory");
    expect(broker.use().length).toBe(1);
    source.end(replica.pid);
    source.hold("GPU-0", -1, 55 * GB);
    await pass(2_000);
    expect(lines[1]).toContain("it counts as free");
    expect(broker.use()).toEqual([]);
    // It is still measured before it is granted.
    expect(next.grant).toBeNull();
    expect(next.claim.obstacle()).toBe(
      "GPU memory: 60 GB of any model are wanted, 25 GB are free; 55 GB are used outside Millrace",
    );
    source.end(-1);
    await pass(2_000);
    expect(uuidsOf(next)).toEqual(["GPU-0"]);
  },
);

test("a driver that answers without numbers is not waited for", async () => {
  const { app, source, end } = site();
  source.knows = "nothing";
  source.see();
  const first = app("one").start(wishFor(60));
  const second = app("two").start(wishFor(60));
  await quiet();
  await end(first);
  expect(uuidsOf(second)).toEqual(["GPU-0"]);
});

verifies(
  "gpu.release.unknown",
  "as long as the driver does not answer, no memory counts as free, however long that takes",
  async () => {
    for (const trouble of ["isHanging", "isDown"] as const) {
      const { app, source, pass, lines, broker } = site();
      const replica = app("one").start(wishFor(60));
      await quiet();
      source.hold("GPU-0", replica.pid, 55 * GB);
      const next = app("two").start(wishFor(60));
      await pass(1_000);
      source[trouble] = true;
      replica.tenant.stop(replica);
      replica.gone.resolve();
      await pass(60_000);
      expect([trouble, next.grant, broker.use().length, lines]).toEqual([trouble, null, 1, []]);
      // The bound begins when it answers again: the memory is not free yet.
      source[trouble] = false;
      await pass(9_000);
      expect([trouble, next.grant, broker.use().length]).toEqual([trouble, null, 1]);
      source.end(replica.pid);
      await pass(2_000);
      expect([trouble, uuidsOf(next)]).toEqual([trouble, ["GPU-0"]]);
    }
  },
);
