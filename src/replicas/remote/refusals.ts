import { runsOn } from "../../host/python-tag.ts";
import type { Exit, Workload } from "../engine.ts";

/** Why an app cannot start in any seat elsewhere; null if it can. */
export function whatIsMissing({ version, environment }: Workload): string | null {
  const { bundleBlob, environmentBlob } = version;
  if (bundleBlob === null || (environment !== null && environmentBlob === null))
    return "its files are in no blob, from which they could be fetched: deploy the app again";
  return null;
}

/** Why it cannot start on that Python: packages that were made for another would fail in ways that nobody understands. */
export function whyNotThere(
  { version: { environmentTag }, python: wish }: Workload,
  { python, tag }: { readonly python: string; readonly tag: string },
  placeName: string,
): string | null {
  if (environmentTag !== null && !runsOn(environmentTag, tag))
    return `its packages are for ${environmentTag}, and ${placeName} has ${tag}`;
  if (wish && minorOf(python) !== minorOf(wish.version))
    return `it asks for Python ${wish.version}, and ${placeName} has ${python}`;
  return null;
}

function minorOf(version: string): string {
  return version.split(".").slice(0, 2).join(".");
}

/** Why an app cannot start, as its end. */
export function refused(why: string): Exit {
  const message = `The app cannot start: ${why}.`;
  return { detail: why, initFailure: { message, traceback: message } };
}
