import type { Settings } from "../config/setting-keys.ts";
import { describeRayTrouble, openJobsApi } from "../host/ray/jobs-api.ts";
import type { JobsApi } from "../host/ray/jobs-api.ts";
import { whyTooOld } from "../host/ray/ray-version.ts";
import { fail, ok } from "./finding.ts";
import type { Finding } from "./finding.ts";

const CHECK = "ray";

/** The cluster answers, takes our token, and is new enough. */
export async function checkRay(settings: Settings): Promise<Finding> {
  if (settings.engine !== "ray") return ok(CHECK, `not used: MILLRACE_ENGINE is ${settings.engine}`);
  try {
    return await checkCluster(openJobsApi(settings));
  } catch (error) {
    return fail(CHECK, (error as Error).message, "set MILLRACE_RAY_ADDRESS, see docs/ray.md");
  }
}

async function checkCluster(api: JobsApi): Promise<Finding> {
  try {
    const version = await api.version();
    // Anybody may ask for the version; a cluster with tokens shows its jobs only to those who have one.
    await api.look("millrace-doctor");
    const problem = whyTooOld(version);
    if (problem !== null) return fail(CHECK, `${api.address}: ${problem}`, "update Ray on every node");
    return ok(CHECK, `${api.address}: Ray ${version}`);
  } catch (error) {
    const remedy = "check MILLRACE_RAY_ADDRESS, the token, and that the cluster's dashboard runs";
    return fail(CHECK, `${api.address}: ${describeRayTrouble(error)}`, remedy);
  }
}
