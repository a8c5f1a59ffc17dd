import { INTERNALS, type Settings } from "../../src/config/setting-keys.ts";
import { readSettings } from "../../src/config/settings.ts";

/** Walls cost each start of a service a third more, and have tests of their own: services of other tests do without. */
export const ISOLATION = process.env["MILLRACE_TEST_ISOLATION"] ?? "none";

/**
 * The settings of a service that a test starts in its own process; members of `INTERNALS` are given as values, and the
 * variables of OpenTelemetry by their names. Such a service uses no container tool of this machine, and its remote seats end with it.
 */
export function testSettings(flags: Readonly<Record<string, unknown>>): Settings {
  const given = Object.entries({ isolation: ISOLATION, containerEngine: "none", keepSeats: false, ...flags });
  const isStandard = ([name]: [string, unknown]): boolean => name.startsWith("OTEL_");
  const isInternal = ([name]: [string, unknown]): boolean => Object.hasOwn(INTERNALS, name);
  return readSettings({
    flags: Object.fromEntries(given.filter((each) => !isInternal(each) && !isStandard(each))),
    env: {
      ...internals(Object.fromEntries(given.filter(isInternal))),
      ...(Object.fromEntries(given.filter(isStandard)) as Record<string, string>),
    },
  }).settings;
}

/** The same members for a service that is a process of its own, as its variable. */
export function internals(values: Partial<typeof INTERNALS>): { MILLRACE_INTERNALS: string } {
  return { MILLRACE_INTERNALS: JSON.stringify(values) };
}
