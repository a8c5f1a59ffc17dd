/** The result of a check; `remedy` says how to repair the fault. */
export type Finding = {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly message: string;
  readonly remedy: string | null;
};

export function ok(check: string, message: string): Finding {
  return { check, status: "ok", message, remedy: null };
}

/** It works, with a flaw. */
export function warn(check: string, message: string, remedy: string): Finding {
  return { check, status: "warn", message, remedy };
}

/** It will not work like this. */
export function fail(check: string, message: string, remedy: string): Finding {
  return { check, status: "fail", message, remedy };
}
