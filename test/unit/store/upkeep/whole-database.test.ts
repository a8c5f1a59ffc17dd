import { expect } from "vitest";
import { Inspection } from "../../../../src/store/upkeep/whole-database.ts";
import { HandClock } from "../../../support/clocks.ts";
import { verifies } from "../../../verifies.ts";

function site() {
  const clock = new HandClock();
  const looks: { begin: () => void; end: (report: string) => void }[] = [];
  const database = { isSilent: false };
  const inspection = new Inspection<string>({
    inspect: (begin) => {
      const { promise, resolve } = Promise.withResolvers<string>();
      looks.push({ begin, end: resolve });
      return promise;
    },
    isSilent: () => database.isSilent,
    clock,
  });
  return { clock, looks, database, inspection };
}

verifies(
  "doctor.hang",
  "a disk of which nothing can be read is given up, and holds one thread at most",
  async () => {
    const { clock, looks, inspection } = site();
    const asked = Promise.allSettled([inspection.report(), inspection.report()]);
    clock.advance(5_000);
    expect(await asked).toMatchObject([{ status: "rejected" }, { status: "rejected" }]);
    // The thread still waits for its disk: nobody waits with it, and there is no other.
    await expect(inspection.report()).rejects.toThrow("does not answer");
    expect(looks).toHaveLength(1);
    expect(clock.pending).toBe(0);
    looks[0]!.end("late");
    await new Promise(setImmediate);
    const next = inspection.report();
    expect(looks).toHaveLength(2);
    looks[1]!.end("sound");
    expect(await next).toBe("sound");
  },
);

verifies(
  "doctor.hang",
  "a look that has begun takes as long as it takes, while the database answers others",
  async () => {
    const { clock, looks, database, inspection } = site();
    const asked = inspection.report();
    looks[0]!.begin();
    clock.advance(3_600_000);
    looks[0]!.end("sound");
    expect(await asked).toBe("sound");
    const stuck = Promise.allSettled([inspection.report()]);
    looks[1]!.begin();
    database.isSilent = true;
    clock.advance(1_000);
    expect(await stuck).toMatchObject([{ status: "rejected" }]);
  },
);

verifies("doctor.hang", "a look may begin at once, as that at Postgres does", async () => {
  const inspection = new Inspection<string>({
    inspect: async (begin) => {
      begin();
      return "sound";
    },
    isSilent: () => false,
    clock: new HandClock(),
  });
  expect(await inspection.report()).toBe("sound");
});
