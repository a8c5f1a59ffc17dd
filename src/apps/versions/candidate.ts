import type { FunctionSignature, Version } from "../../model/app.ts";
import type { AppConfig } from "../../model/app-config.ts";
import { misfits } from "../../model/arguments.ts";
import type { InitFailure } from "../../engines/engine.ts";
import type { OpenVersion } from "./open-version.ts";

export type Check =
  /** `setupMs`: how long its `setup()` took; null if it has none. */
  | {
      readonly kind: "ready";
      readonly functions: readonly FunctionSignature[];
      readonly setupMs: number | null;
    }
  /** A server takes calls; `isSingle` if there can be no second one beside it. */
  | { readonly kind: "serves"; readonly isSingle: boolean }
  | ({ readonly kind: "failed" } & Omit<InitFailure, "isTimeout">)
  /** Not ready within its deployment_initialization_timeout. */
  | { readonly kind: "timeout"; readonly message: string };

/** The first part of the address of an app's runs: a function of that name could never be called. */
const TAKEN_NAME = "runs";

/** A version that may come to serve; no call finds it yet. Its checked replica is the first that serves. */
export class Candidate {
  readonly version: Version;
  readonly #open: () => Promise<OpenVersion>;
  readonly #forget: () => void;
  #opened: Promise<OpenVersion> | null = null;
  #isOver = false;

  constructor(version: Version, open: () => Promise<OpenVersion>, forget: () => void) {
    this.version = version;
    this.#open = open;
    this.#forget = forget;
  }

  /** Starts one replica and waits for it; rejects with the signal's reason, and the process is gone then. */
  async check(signal: AbortSignal): Promise<Check> {
    try {
      const open = await this.opened();
      signal.throwIfAborted();
      const failure = await open.warm(1, signal);
      signal.throwIfAborted();
      const result = failure ? failed(failure) : ready(open);
      if (result.kind === "failed" || result.kind === "timeout") await this.discard();
      return result;
    } catch (error) {
      await this.discard();
      throw error;
    }
  }

  /** Ends its processes, if it does not serve. */
  async discard(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#forget();
    const open = await this.#opened?.catch(() => null);
    await open?.close();
  }

  /** The version as it was opened for it. Throws when it was discarded. */
  async opened(): Promise<OpenVersion> {
    if (this.#isOver) throw new Error(`the version ${this.version.id} was discarded`);
    this.#opened ??= this.#open();
    return await this.#opened;
  }

  /** It serves: its replicas are no longer this candidate's to close. */
  settle(): void {
    this.#isOver = true;
    this.#forget();
  }
}

function failed({ isTimeout, ...failure }: InitFailure): Check {
  return isTimeout ? { kind: "timeout", message: failure.message } : { kind: "failed", ...failure };
}

function ready({ pool, version }: OpenVersion): Check {
  if (version.config.customRuntime) return { kind: "serves", isSingle: pool.fleet.isSingle };
  const functions = [...(pool.functions?.values() ?? [])];
  const setupMs = pool.fleet.ready[0]?.setupMs ?? null;
  const message = functions.some(({ name }) => name === TAKEN_NAME)
    ? `main.py has a function "${TAKEN_NAME}", whose address is reserved for the app's runs; rename it`
    : scheduleFault(version.config, functions);
  if (message === null) return { kind: "ready", functions, setupMs };
  return { kind: "failed", message, traceback: message };
}

/** Why a schedule of the configuration could call nothing; null if each can. */
function scheduleFault(
  { schedules = [], deployment }: AppConfig,
  functions: readonly FunctionSignature[],
): string | null {
  for (const { name, functionName, input } of schedules) {
    const signature = functions.find((known) => known.name === functionName);
    const place = `[[schedules]] "${name}"`;
    if (!signature) return `${place}: main.py has no function ${functionName} that can be called`;
    const [misfit] = misfits(signature, Object.keys(input), deployment.extraParams === "ignore").details;
    if (misfit)
      return `${place}: its input does not fit ${functionName}(): ${misfit.field} is ${misfit.problem}`;
  }
  return null;
}
