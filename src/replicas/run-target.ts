import type { AppConfig } from "../model/app-config.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Call } from "./call.ts";

/** What takes a run's call to a replica, as far as runs know of it. */
type RunSlots = {
  /** The call's reader learns its end, be it a refusal, perhaps before this returns. */
  submit(call: Call): void;
  /** Ends a call before its time: its reader gets `outcome` now, and its code is stopped. */
  abandon(call: Call, outcome: Outcome): void;
  /** How many more calls from the backlog it would take now. */
  readonly backlogRoom: number;
};

/** What is not stored of a run that somebody waits for, whatever its app's configuration says. */
export type HiddenPayloads = { readonly input: boolean; readonly result: boolean };

/** Where a run goes: to the replicas of a version. */
export type RunTarget = {
  readonly appNumber: number;
  readonly versionId: string;
  readonly slots: RunSlots;
  readonly config: AppConfig;
  readonly hidden: HiddenPayloads;
};
