import { TestRunner } from "vitest";
import type { Condition } from "../../src/kit/concurrency.ts";

const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 100;

/** What tests of this process wait for now, in their own words. */
const waits = new Set<string>();

/**
 * Waits until a condition holds. Looks again when the condition rings; without one, for states that tell nobody of
 * themselves (a row, a file, a process that ends), after a pause that grows. The one deadline is the test's: who
 * meets it is told what was waited for.
 */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  condition?: Condition,
): Promise<void> {
  const test = TestRunner.getCurrentTest();
  const done = new AbortController();
  waits.add(what);
  try {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS)) {
      // Before the look: what rings during it is not missed.
      const news = condition?.wait(done.signal);
      if (await holds()) return;
      if (test !== TestRunner.getCurrentTest()) throw new Error(`the test is over, and not yet: ${what}`);
      await (news ?? new Promise((resolve) => setTimeout(resolve, pauseMs)));
    }
  } finally {
    done.abort();
    waits.delete(what);
  }
}

/** What is waited for at the moment. */
export function awaited(): readonly string[] {
  return [...waits];
}
