import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { AppError } from "../../../src/model/errors.ts";
import { Acceptor, InDoubt, InputTurns } from "../../../src/runs/acceptor.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { queuedRun, samplePayload } from "../../support/sample-run.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** When a store that says nothing is given up. */
const SILENCE_MS = 4_250;

/** An acceptor on a store that says nothing, and a run that waits for it. */
function silent() {
  const clock = new HandClock();
  const say = Promise.withResolvers<void>();
  // It may be lost before anybody listens.
  say.promise.catch(() => undefined);
  const refused = new Set<string>();
  let isBack = false;
  const runs = {
    accept: () => say.promise,
    refuse: async (batch: readonly { readonly run: { readonly id: string } }[]) => {
      if (!isBack) throw new AppError("storage_unavailable");
      for (const { run } of batch) refused.add(run.id);
      return [...refused];
    },
  } as unknown as Store["runs"];
  const acceptor = new Acceptor({ store: { runs }, clock, log: createLog("silent") });
  let answer: unknown = null;
  const run = { run: queuedRun(), payload: samplePayload(), owner: null };
  void acceptor.accept(run).then(
    () => (answer = "stored"),
    (error: unknown) => (answer = error),
  );
  const lose = () => say.reject(new AppError("in_doubt", {}, new Error("the database does not answer")));
  const refuse = () => {
    isBack = true;
    say.reject(new AppError("storage_unavailable"));
  };
  const heard = async () => {
    for (let turn = 0; turn < 5; turn++) await setImmediate();
    return answer;
  };
  return { clock, acceptor, lose, refuse, refused, store: say.resolve, heard };
}

verifies(
  "silence.breaker",
  "a call under way when the silence begins is answered within 5 s in all",
  async () => {
    const { clock, lose, heard } = silent();
    clock.advance(SILENCE_MS);
    lose();
    await until("it is asked about again", () => clock.pending === 2);
    expect(await heard()).toBe(null);
    while (clock.elapsedMs < 4_999) {
      clock.advance(83);
      await setImmediate();
    }
    expect(await heard()).toBeInstanceOf(InDoubt);
  },
);

verifies(
  "silence.breaker",
  "who was told that it is not known finds a refusal, also where the write was never sent",
  async () => {
    const { clock, refuse, refused, heard } = silent();
    clock.advance(4_750);
    const error = await heard();
    if (!(error instanceof InDoubt)) throw new Error("it is known");
    refuse();
    expect(await error.settled).toBe(false);
    expect(refused.size).toBe(1);
  },
);

verifies(
  "silence.breaker",
  "also one whose write nobody answers or gives up, and it is settled when that ends",
  async () => {
    const { clock, store, heard } = silent();
    clock.advance(4_999);
    const error = (await heard()) as InDoubt;
    expect(error).toBeInstanceOf(InDoubt);
    store();
    expect(await error.settled).toBe(true);
  },
);

verifies(
  "silence.drained",
  "when the service stops who waits for what nobody knows is told so at once, never that it was refused",
  async () => {
    const { clock, acceptor, lose, heard } = silent();
    lose();
    await until("it is asked about again", () => clock.pending === 2);
    expect(await heard()).toBe(null);
    acceptor.startDraining();
    expect(await heard()).toBeInstanceOf(InDoubt);

    const late = silent();
    late.acceptor.startDraining();
    expect(await late.heard()).toBe(null);
    late.lose();
    expect(await late.heard()).toBeInstanceOf(InDoubt);

    const unanswered = silent();
    unanswered.acceptor.startDraining();
    unanswered.clock.advance(1_000);
    expect(await unanswered.heard()).toBeInstanceOf(InDoubt);

    const stopped = silent();
    stopped.acceptor.stop();
    expect(await stopped.heard()).toBeInstanceOf(InDoubt);
  },
);

const BYTES = 1024 * 1024;
const REFUSED = { code: "storage_unavailable", status: 503 };

/** Turns, and what is being stored in them until the test says that it is done. */
function turns() {
  const clock = new HandClock();
  const inputs = new InputTurns(clock);
  const stored: number[] = [];
  const ends: (() => void)[] = [];
  const store = (appNumber: number, bytes = BYTES, isBlob = false): Promise<unknown> =>
    inputs
      .take({ appNumber, bytes, isBlob }, async () => {
        stored.push(appNumber);
        await new Promise<void>((resolve) => ends.push(resolve));
      })
      .catch((error: unknown) => error);
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 5; turn += 1) await setImmediate();
  };
  return { clock, store, stored, ends, settle };
}

verifies(
  "accept.turns",
  "large inputs of one app leave room for those of others, and little ones for all",
  async () => {
    const { store, stored, ends, settle } = turns();
    for (let n = 0; n < 20; n += 1) void store(1);
    void store(2);
    void store(1, 64 * 1024);
    // Where blobs are put is no matter of rows.
    void store(1, BYTES, true);
    await settle();
    expect(stored.filter((app) => app === 1)).toHaveLength(8 + 2);
    expect(stored.filter((app) => app === 2)).toHaveLength(1);
    while (ends.length > 0) {
      ends.shift()?.();
      await settle();
    }
    expect(stored).toHaveLength(23);
  },
);

verifies("accept.turns", "who would wait for too long is refused before anything is stored", async () => {
  const { clock, store, stored, settle } = turns();
  const all = Array.from({ length: 8 + 256 }, () => store(1));
  expect(await store(1)).toMatchObject(REFUSED);
  clock.advance(4_000);
  await settle();
  expect(await all.at(-1)).toMatchObject(REFUSED);
  expect(stored).toHaveLength(8);
});
