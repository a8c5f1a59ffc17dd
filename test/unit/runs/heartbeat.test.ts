import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { AppError } from "../../../src/model/errors.ts";
import { Heartbeat, LEASE_MS } from "../../../src/runs/heartbeat.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const BEAT_MS = 5_000;

verifies(
  "lease.late-judge",
  "a service that could not renew its own lease for a while gives the others time to renew theirs",
  async () => {
    const clock = new HandClock();
    let isAway = false;
    let [beats, judgements] = [0, 0];
    const claims = {
      heartbeat: async () => {
        beats += 1;
        if (isAway) throw new AppError("storage_unavailable");
        return clock.now();
      },
      recover: async () => {
        judgements += 1;
        return 0;
      },
    } as unknown as Store["claims"];
    const log = createLog("silent");
    const heartbeat = new Heartbeat({ store: { claims }, clock, log, owner: "a", holdsAny: () => true });
    await heartbeat.begin();
    heartbeat.start();
    const beat = async (count: number) => {
      for (let i = 0; i < count; i++) {
        clock.advance(BEAT_MS);
        await setImmediate();
      }
    };
    await beat(LEASE_MS / BEAT_MS + 1);
    expect([beats, judgements]).toEqual([5, 2]);
    isAway = true;
    await beat(4);
    isAway = false;
    await beat(LEASE_MS / BEAT_MS);
    expect([beats, judgements]).toEqual([12, 2]);
    await beat(1);
    expect([beats, judgements]).toEqual([13, 3]);
  },
);

verifies(
  "lease.one-judge",
  "one who looks for the dead and has to wait is not joined by others",
  async () => {
    const clock = new HandClock();
    let [beats, judgements] = [0, 0];
    let judged = Promise.withResolvers<number>();
    const claims = {
      heartbeat: async () => {
        beats += 1;
        return clock.now();
      },
      recover: () => {
        judgements += 1;
        return judged.promise;
      },
    } as unknown as Store["claims"];
    const log = createLog("silent");
    const heartbeat = new Heartbeat({ store: { claims }, clock, log, owner: "a", holdsAny: () => true });
    await heartbeat.begin();
    heartbeat.start();
    const beat = async () => {
      clock.advance(BEAT_MS);
      await setImmediate();
    };
    for (let i = 0; i < LEASE_MS / BEAT_MS + 2; i++) await beat();
    expect([beats, judgements]).toEqual([6, 1]);
    judged.reject(new AppError("storage_unavailable"));
    judged = Promise.withResolvers();
    await setImmediate();
    await beat();
    expect([beats, judgements]).toEqual([7, 2]);
  },
);

verifies(
  "lease.late-start",
  "a service that starts gives the others time to renew their leases",
  async () => {
    const clock = new HandClock();
    let judgements = 0;
    const claims = {
      heartbeat: async () => clock.now(),
      recover: async () => {
        judgements += 1;
        return 0;
      },
    } as unknown as Store["claims"];
    const log = createLog("silent");
    const heartbeat = new Heartbeat({ store: { claims }, clock, log, owner: "a", holdsAny: () => true });
    await heartbeat.begin();
    heartbeat.start();
    const seen: number[] = [];
    for (let ms = BEAT_MS; ms <= LEASE_MS; ms += BEAT_MS) {
      clock.advance(BEAT_MS);
      await setImmediate();
      seen.push(judgements);
    }
    expect(seen).toEqual([0, 0, 1]);
  },
);
