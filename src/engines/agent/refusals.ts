import { runsOn } from "../../host/python-tag.ts";
import type { Exit, Workload } from "../engine.ts";
import type { SeatPlace } from "./seat-place.ts";

/** Why an app cannot start in any seat elsewhere; null if it can. */
export function whatIsMissing({ version, environment }: Workload): string | null {
  const { bundleBlob, environmentBlob } = version;
  if (bundleBlob === null || (environment !== null && environmentBlob === null))
    return "its files are in no blob, from which they could be fetched: deploy the app again";
  return null;
}

/** Why it cannot start on that Python: packages that were made for another would fail in ways that nobody understands. */
export function whyNotThere(
  { version: { environmentTag }, python: wish, image }: Workload,
  { python, tag }: { readonly python: string; readonly tag: string },
  place: Pick<SeatPlace, "name" | "builds">,
): string | null {
  if (environmentTag !== null && !runsOn(environmentTag, tag))
    return `its packages are for ${environmentTag}, and ${place.name} has ${tag}`;
  // An image of the app's own has the Python that it has.
  if (image && place.builds) return null;
  if (wish && minorOf(python) !== minorOf(wish.version))
    return `it asks for Python ${wish.version}, and ${place.name} has ${python}`;
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
