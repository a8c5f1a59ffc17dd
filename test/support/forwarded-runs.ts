import type { NewDelivery } from "../../src/model/delivery.ts";
import type { Payload, Run } from "../../src/model/run.ts";
import type { FinishedClaim } from "../../src/store/runs/final-runs.ts";
import type { AcceptedRun } from "../../src/store/runs/accepted-runs.ts";
import type { Store } from "../../src/store/store.ts";
import { samplePayload } from "./sample-run.ts";

/** A run that has ended, and its response on its way. */
export type ForwardedRun = {
  readonly run: Run;
  readonly payload?: Payload | null;
  readonly delivery: NewDelivery;
};

const OWNER = "forwarder";

/** It as it is accepted, and how its owner ends it. */
export function forwardedRun({ run, payload = null, delivery }: ForwardedRun): {
  readonly accepted: AcceptedRun;
  readonly finished: FinishedClaim;
} {
  const input = { ...(payload ?? samplePayload()), result: null, contentType: null };
  const result = payload && { bytes: payload.result, contentType: payload.contentType };
  return {
    accepted: { run: { ...run, state: "running" }, payload: input, owner: OWNER },
    finished: { run, fence: 1, owner: OWNER, result, part: null, delivery },
  };
}

/** Stores such runs in two commits. */
export async function insertForwarded(
  { runs, claims }: Pick<Store, "runs" | "claims">,
  forwarded: readonly ForwardedRun[],
): Promise<void> {
  const made = forwarded.map(forwardedRun);
  await runs.accept(made.map(({ accepted }) => accepted));
  await claims.finish(made.map(({ finished }) => finished));
}
