/** How an app that is served does right now. */
export type Glance = {
  readonly appNumber: number;
  readonly version: { readonly number: number; readonly buildId: string };
  readonly state: "ready" | "notready" | "error" | "cold";
  readonly replicas: { readonly starting: number; readonly ready: number; readonly draining: number };
  /** Calls that wait, and calls in replicas. */
  readonly waiting: number;
  readonly running: number;
  readonly oldestWaitMs: number;
  readonly coldStarts: number;
};
