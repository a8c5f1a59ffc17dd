import { lookup as lookUpName } from "node:dns/promises";
import type { Settings } from "../config/setting-keys.ts";
import { ok, warn } from "./finding.ts";
import type { Finding } from "./finding.ts";

type LookUp = (name: string) => Promise<{ readonly address: string }>;

/** Not a valid app label, so that only a wildcard record resolves it. */
const PROBE = "millrace-doctor";

/** Checks that names below the domain of app hosts resolve. */
export async function checkAppHosts(
  { appHosts }: Pick<Settings, "appHosts">,
  lookUp: LookUp = lookUpName,
): Promise<Finding> {
  const check = "app hosts";
  if (appHosts === null) return ok(check, "none: all apps share the origin of the API");
  try {
    const { address } = await lookUp(`${PROBE}.${appHosts}`);
    return ok(check, `*.${appHosts} resolves to ${address}`);
  } catch (error) {
    const remedy = `add a DNS record for *.${appHosts} that leads to the app endpoints or to the proxy in front`;
    return warn(check, `*.${appHosts} does not resolve here: ${(error as Error).message}`, remedy);
  }
}
