import { expect } from "vitest";
import { BatchStorm } from "../support/batch-storm.ts";
import { faultDice } from "../support/dice.ts";
import { verifies } from "../verifies.ts";

/** A million take some minutes. */
const CALLS = Number(process.env["MILLRACE_BATCH_CALLS"] ?? 20_000);

verifies(
  ["batching.own-answer", "batching.crash", "batching.split"],
  `each of ${CALLS} calls gets its own answer, while calls raise, leave, die and hang, replicas are killed and the app is deployed`,
  async () => {
    const storm = await BatchStorm.open(CALLS, faultDice());
    await storm.run();
    process.stderr.write(`${JSON.stringify(storm.done)}\n`);
    expect(storm.faults).toEqual([]);
    const { answered = 0, crashed = 0, timedOut = 0, kills = 0, die = 0, hang = 0 } = storm.done;
    expect(kills).toBeGreaterThan(0);
    expect(answered).toBeGreaterThan(CALLS / 2);
    // A process may be killed while it runs a call alone.
    expect(crashed).toBeLessThanOrEqual(kills + die);
    // Whoever shared a batch with a call that hangs.
    expect(timedOut).toBeLessThanOrEqual(hang * 32);
  },
  600_000 + CALLS * 5,
);
