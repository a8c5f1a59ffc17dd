import { test, type TestContext } from "vitest";
import type { RequirementId } from "./requirements.ts";

/**
 * A test that keeps one or more promises of `requirements.ts`. Write the ids as literals:
 * `unit/requirements.test.ts` reads them from the source.
 */
export function verifies(
  ids: RequirementId | readonly RequirementId[],
  title: string,
  fn: (context: TestContext) => Promise<void> | void,
  timeoutMs?: number,
): void {
  const names = typeof ids === "string" ? ids : ids.join(", ");
  test(`[${names}] ${title}`, fn, timeoutMs);
}
