import { expect, test } from "vitest";
import type { RetryConfig } from "../../../src/model/app-config.ts";
import type { Outcome } from "../../../src/model/outcome.ts";
import { maxAttempts, retryDelayMs } from "../../../src/model/retry.ts";
import { verifies } from "../../verifies.ts";

const RETRY: RetryConfig = {
  maxAttempts: 5,
  initialDelaySeconds: 1,
  backoff: 2,
  maxDelaySeconds: 5,
  jitter: 0,
  on: ["crash", "error", "timeout"],
};
const RAISED: Outcome = {
  kind: "raised",
  code: "app_error",
  message: "ReadTimeout",
  traceback: "",
  runMs: 1,
  types: ["ReadTimeout", "httpx.ReadTimeout", "Exception"],
  retryAfterMs: null,
  isForGood: false,
};
const DIED: Outcome = { kind: "died", detail: "exit code 1" };

const delay = (changes: Partial<RetryConfig>, outcome: Outcome = RAISED, attempt = 1, random = 0.5) => {
  const rules = { retry: { ...RETRY, ...changes }, scaling: { maxAttempts: 2 } };
  return retryDelayMs(rules, attempt, outcome, random);
};

verifies("retry.delays", "each wait is longer than the one before, up to the longest", () => {
  expect([1, 2, 3, 4, 5].map((attempt) => delay({}, RAISED, attempt))).toEqual([
    1000,
    2000,
    4000,
    5000,
    null,
  ]);
  expect([0, 0.5, 1].map((random) => delay({ jitter: 0.2 }, RAISED, 2, random))).toEqual([2000, 1800, 1600]);
  expect(delay({ initialDelaySeconds: 0 })).toBe(0);
});

verifies("retry.on", "only what the rules name is tried again", () => {
  const ends: [Outcome, readonly string[]][] = [
    [DIED, ["crash"]],
    [{ kind: "timed_out", afterMs: 1 }, ["timeout"]],
    [RAISED, ["error", "ReadTimeout", "httpx.ReadTimeout", "Exception"]],
    [{ ...RAISED, code: "out_of_memory", types: ["MemoryError"] }, ["crash", "error", "MemoryError"]],
    [{ kind: "broken", message: "", runMs: 1 }, ["error"]],
    [{ kind: "responded", status: 503, contentType: null, body: null, runMs: 1 }, ["error"]],
    [{ kind: "responded", status: 404, contentType: null, body: null, runMs: 1 }, []],
    [{ kind: "cancelled" }, []],
    [{ kind: "misfit", details: [], more: 0 }, []],
    [{ kind: "unsendable", code: "result_not_json", message: "", runMs: 1 }, []],
  ];
  const words = ["crash", "error", "timeout", "ReadTimeout", "httpx.ReadTimeout", "MemoryError", "Exception"];
  for (const [outcome, causes] of ends)
    for (const word of [...words, "ConnectError"])
      expect([word, outcome, delay({ on: [word] }, outcome) !== null]).toEqual([
        word,
        outcome,
        causes.includes(word),
      ]);
});

verifies(
  ["retry.after", "retry.no-retry"],
  "an exception sets its own wait, or asks for no further attempt",
  () => {
    expect(delay({}, { ...RAISED, retryAfterMs: 30_000 })).toBe(30_000);
    expect(delay({}, { ...RAISED, retryAfterMs: 0 })).toBe(0);
    expect(delay({}, { ...RAISED, retryAfterMs: 30_000 }, 5)).toBe(null);
    expect(delay({}, { ...RAISED, isForGood: true, retryAfterMs: 1 })).toBe(null);
  },
);

verifies("retry.on", "a class that has the name of another cause is not taken for it", () => {
  const types = ["timeout", "socket.timeout", "OSError", "Exception"];
  const outcome: Outcome = { ...RAISED, types };
  expect(delay({ on: ["timeout"] }, outcome)).toBe(null);
  expect(delay({ on: ["crash", "socket.timeout"] }, outcome)).toBe(1000);
});

test("without the table a run whose process died starts again at once, as often as its scaling says", () => {
  const rules = { scaling: { maxAttempts: 3 } };
  expect([1, 2, 3].map((attempt) => retryDelayMs(rules, attempt, DIED, 0))).toEqual([0, 0, null]);
  expect(retryDelayMs(rules, 1, RAISED, 0)).toBe(null);
  expect(retryDelayMs(rules, 1, { ...RAISED, code: "out_of_memory", types: ["MemoryError"] }, 0)).toBe(null);
  expect(maxAttempts({ ...rules, retry: { ...RETRY, maxAttempts: null } })).toBe(3);
});

verifies("retry.delays", "at the bounds of all keys a wait is a whole number of milliseconds", () => {
  const most = {
    maxAttempts: 100,
    initialDelaySeconds: 86_400,
    backoff: 10,
    maxDelaySeconds: 86_400,
    jitter: 1,
  };
  for (const changes of [most, { ...most, initialDelaySeconds: 0 }, { ...most, maxDelaySeconds: 0 }])
    for (const attempt of [1, 2, 50, 99])
      for (const random of [0, 0.5, 0.999_999]) {
        const waitMs = delay(changes, RAISED, attempt, random);
        expect([Number.isSafeInteger(waitMs), waitMs! >= 0, waitMs! <= 2 * 86_400_000]).toEqual([
          true,
          true,
          true,
        ]);
      }
  expect(delay(most, RAISED, 100)).toBe(null);
});
