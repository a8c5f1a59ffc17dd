import { readSettings } from "../../src/config/settings.ts";
import type { Settings } from "../../src/config/setting-keys.ts";

/** Walls cost each start of a service a third more, and have tests of their own: services of other tests do without. */
export const ISOLATION = process.env["MILLRACE_TEST_ISOLATION"] ?? "none";

/** Nor do they use what happens to be installed here, or leave anything elsewhere. The settings of a service that a test starts in its own process. */
export function testSettings(flags: Readonly<Record<string, unknown>>): Settings {
  const usual = { isolation: ISOLATION, containerEngine: "none", keepSeats: false };
  return readSettings({ flags: { ...usual, ...flags }, env: {} }).settings;
}
