import { isMainThread } from "node:worker_threads";

// Loaded into a service before its own code (NODE_OPTIONS=--import): a signal is an error that nothing catches.

/** What stands in the error. */
export const INJECTED = "thrown by a test";
/** The signal that throws, and the one that leaves a rejection to nobody. */
export const THROW = "SIGUSR2";
export const REJECT = "SIGWINCH";

if (isMainThread && process.env["NODE_OPTIONS"]?.includes("throw-at-signal")) {
  const failure = (): Error =>
    Object.assign(new TypeError(INJECTED, { cause: new Error("the cause of it") }), { code: "EODD" });
  process.on(THROW, () => {
    throw failure();
  });
  process.on(REJECT, () => void Promise.reject(failure()));
}
