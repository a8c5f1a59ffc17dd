import * as fc from "fast-check";
import { test } from "vitest";
import { ConfigError } from "../../../src/config/problems.ts";
import { flagMemberOf, SETTING_KEYS } from "../../../src/config/setting-keys.ts";
import { readSettings } from "../../../src/config/settings.ts";

/** Lone surrogates and control characters too. */
const anyText = fc.array(fc.nat(0xffff), { maxLength: 12 }).map((units) => String.fromCharCode(...units));

test("whatever flags and environment hold, the answer is settings or a ConfigError", () => {
  const names = Object.values(SETTING_KEYS).map(({ name }) => name);
  const text = fc.oneof(anyText, fc.constantFrom("1", "0", "-1", "1e99", "NaN", "10GB", "::1", "*"));
  const some = (rename: (name: string) => string): fc.Arbitrary<Record<string, string>> =>
    fc.dictionary(fc.constantFrom(...names).map(rename), text);
  fc.assert(
    fc.property(
      some(flagMemberOf),
      some((name) => `MILLRACE_${name.toUpperCase()}`),
      (flags, env) => {
        try {
          return !Object.values(readSettings({ flags, env }).settings).includes(undefined as never);
        } catch (error) {
          if (error instanceof ConfigError) return error.problems.length > 0;
          throw error;
        }
      },
    ),
    { numRuns: 300 },
  );
});
