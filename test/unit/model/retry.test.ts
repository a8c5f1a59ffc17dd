import { expect, test } from "vitest";
import type { RetryConfig } from "../../../src/model/app-config.ts";
import type { Outcome } from "../../../src/model/outcome.ts";
import { retryDelayMs, retryRules } from "../../../src/model/retry.ts";
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
  const rules = retryRules({ retry: { ...RETRY, ...changes }, scaling: { maxAttempts: 2 } });
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
  expect([0, 0.5, 1].map((random) => delay({ jitter: 0.2 }, RAISED, 2, random))).toEqual([1600, 2000, 2400]);
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

test("without the table a run that crashed starts again at once, as often as its scaling says", () => {
  const rules = retryRules({ scaling: { maxAttempts: 3 } });
  expect([1, 2, 3].map((attempt) => retryDelayMs(rules, attempt, DIED, 0))).toEqual([0, 0, null]);
  expect(retryDelayMs(rules, 1, RAISED, 0)).toBe(null);
  expect(
    retryRules({ retry: { ...RETRY, maxAttempts: null }, scaling: { maxAttempts: 3 } }).maxAttempts,
  ).toBe(3);
});
