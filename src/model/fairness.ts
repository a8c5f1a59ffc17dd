/**
 * In whose line a run waits, and how many turns that line has compared with others. Runs of one key wait for each other;
 * the keys of an app take turns.
 */
export type Fairness = { readonly key: string; readonly weight: number };

/** Of a service account. */
export const USUAL_WEIGHT = 1;
export const MAX_WEIGHT = 100;
