/** How a call ended: a value, never an exception of ours. */
export type Outcome =
  | Returned
  /** A generator ran to its end; its chunks were sent before. */
  | { readonly kind: "streamed"; readonly runMs: number }
  | Responded
  /** The app's own server gave no valid answer, or only a part of one. */
  | { readonly kind: "broken"; readonly message: string; readonly runMs: number }
  | Raised
  /** The arguments did not fit the signature; the function was not entered. `more`: how many misfits are not listed. */
  | { readonly kind: "misfit"; readonly details: readonly Misfit[]; readonly more: number }
  /** `main.py` has no such function; `functions` are those it has, if known. */
  | { readonly kind: "no_function"; readonly functions?: readonly string[] }
  | Unsendable
  /** The replica's process ended during the call; `isOutOfMemory`: it used up its memory or the host's, `isOutOfGpuMemory`: more than its share of a GPU. */
  | {
      readonly kind: "died";
      readonly detail: string;
      readonly isOutOfMemory?: true;
      readonly isOutOfGpuMemory?: true;
    }
  | { readonly kind: "timed_out"; readonly afterMs: number }
  | Late
  | { readonly kind: "cancelled"; readonly message?: string }
  /** The run's arguments are no longer stored: it could not begin. */
  | { readonly kind: "lost"; readonly message: string }
  /** The app cannot start, its queue is full, or the service is stopping or ended. */
  | Refused;

export type Returned = {
  readonly kind: "returned";
  /** The result as JSON, the bytes Python wrote. */
  readonly json: Buffer;
  /** The HTTP status the function asked for, or 200. */
  readonly status: number;
  readonly runMs: number;
};

/** The app's own server has answered; the caller, if any, already has the body. */
type Responded = {
  readonly kind: "responded";
  readonly status: number;
  readonly contentType: string | null;
  /** Null if it was too large to be kept, or encoded. */
  readonly body: Buffer | null;
  readonly runMs: number;
};

type Raised = {
  readonly kind: "raised";
  /** A MemoryError has its own code: it is the machine's limit, not the function's logic. */
  readonly code: "app_error" | "out_of_memory";
  /** `Type: text`. */
  readonly message: string;
  readonly traceback: string;
  readonly runMs: number;
  /** The names of its class and those above, plain and with their modules. */
  readonly types: readonly string[];
  /** How long to wait before the next attempt, if the exception says so. */
  readonly retryAfterMs: number | null;
  /** It asks for no further attempt. */
  readonly isForGood: boolean;
};

/** It did not begin, or end, within the time that its caller gave it. */
export type Late = { readonly kind: "late"; readonly code: "expired" | "timed_out" };

export type Refused = {
  readonly kind: "refused";
  readonly code:
    | "queue_full"
    | "queue_timeout"
    | "no_gpu_free"
    | "app_not_ready"
    | "draining"
    | "interrupted";
  readonly message?: string;
  readonly retryAfterSeconds?: number;
};

/** The result cannot be sent: not JSON, too large, or with an invalid status. */
export type Unsendable = {
  readonly kind: "unsendable";
  readonly code: "result_not_json" | "result_too_large" | "app_error";
  readonly message: string;
  readonly runMs: number;
};

/** One argument that does not fit, for the `details` of a 422. */
export type Misfit = {
  readonly field: string;
  readonly problem: "missing" | "unknown" | "invalid";
  /** Of an invalid one: what it must be. */
  readonly message?: string | undefined;
};
