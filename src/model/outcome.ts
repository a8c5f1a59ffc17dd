/** What the user's function did with one call. A value, never an exception of ours. */
export type Outcome =
  | Returned
  /** A generator ran to its end; its chunks went before. */
  | { readonly kind: "streamed"; readonly runMs: number }
  | Responded
  /** The app's own server gave no valid answer, or only a part of one. */
  | { readonly kind: "broken"; readonly message: string; readonly runMs: number }
  | Raised
  /** The arguments did not fit the signature; the function was not entered. */
  | Misfits
  /** `main.py` has no callable function of that name; those it has, where they are known. */
  | { readonly kind: "no_function"; readonly functions?: readonly string[] }
  | Unsendable
  /** The replica's process ended under the call. */
  | Died
  | { readonly kind: "timed_out"; readonly afterMs: number }
  | { readonly kind: "cancelled" }
  /** The run's arguments are no longer stored: it could not begin. */
  | { readonly kind: "lost"; readonly message: string }
  /** The call was not served: the app cannot start, its queue is full, or the service is stopping or ended. */
  | Refused;

type Died = {
  readonly kind: "died";
  readonly detail: string;
  /** It was ended because it used up its memory, or the host's. */
  readonly isOutOfMemory?: true;
};

export type Returned = {
  readonly kind: "returned";
  /** The result as JSON, the bytes Python wrote. */
  readonly json: Buffer;
  /** The HTTP status the function asked for, or 200. */
  readonly status: number;
  readonly runMs: number;
};

/** The app's own server has answered; its caller, if there is one, has got the body already. */
type Responded = {
  readonly kind: "responded";
  readonly status: number;
  /** Null when it named none. */
  readonly contentType: string | null;
  /** The whole body; null where it was larger than what is kept, or encoded. */
  readonly body: Buffer | null;
  readonly runMs: number;
};

type Raised = {
  readonly kind: "raised";
  /** A MemoryError is told apart: it is the machine's limit, not the function's logic. */
  readonly code: "app_error" | "out_of_memory";
  /** `Type: text`. */
  readonly message: string;
  readonly traceback: string;
  readonly runMs: number;
};

export type Refused = {
  readonly kind: "refused";
  readonly code: "queue_full" | "queue_timeout" | "app_not_ready" | "draining" | "interrupted";
  readonly message?: string;
  readonly retryAfterSeconds?: number;
};

/** The result cannot be sent: not JSON, too large, or under a status that is none. */
export type Unsendable = {
  readonly kind: "unsendable";
  readonly code: "result_not_json" | "result_too_large" | "app_error";
  readonly message: string;
  readonly runMs: number;
};

type Misfits = {
  readonly kind: "misfit";
  readonly details: readonly Misfit[];
  /** How many there are beyond those. */
  readonly more: number;
};

/** One argument that does not fit, for the `details` of a 422. */
export type Misfit = { readonly field: string; readonly problem: "missing" | "unknown" };
