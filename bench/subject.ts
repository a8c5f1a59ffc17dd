/** A server under measurement that is up. */
export type Running = {
  /** Where a call is POSTed. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** All that it takes to serve is this process and those below it. */
  readonly pid: number;
  /** Which versions run, for the report. */
  readonly note?: string;
  readonly stop: () => Promise<void>;
};

/** One thing to measure; the names are those of the tables. */
export type Subject = {
  readonly id: "echo" | "floor" | "passthrough" | "millrace" | "pod" | "walls" | "fastapi" | "before";
  readonly name: string;
  /** What a right answer to `CALL_BODY` contains. */
  readonly expects: string;
  /** Starts it ready for calls; throws `Skipped` where this machine cannot have it. */
  readonly start: () => Promise<Running>;
};

/** A subject that cannot be measured here, for a reason that is no fault. */
export class Skipped extends Error {}

/** The one body every subject is called with. */
export const CALL_BODY = '{"name":"ada","n":3}';
