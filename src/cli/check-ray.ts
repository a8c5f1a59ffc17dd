import type { Settings } from "../config/setting-keys.ts";
import { describeRayTrouble, openJobsApi, whyTooOld } from "../engines/ray/jobs-api.ts";
import type { JobsApi } from "../engines/ray/jobs-api.ts";
import type { StandingWalls } from "../host/walls/walls.ts";
import { fail, ok, warn } from "./finding.ts";
import type { Finding } from "./finding.ts";

const CHECK = "ray";

/**
 * The cluster answers, takes our token, and is new enough. `walls` are the weakest that a running service has seen there,
 * null for none.
 */
export async function checkRay(settings: Settings, walls: StandingWalls | null = null): Promise<Finding> {
  if (settings.engine !== "ray") return ok(CHECK, `not used: MILLRACE_ENGINE is ${settings.engine}`);
  try {
    return await checkCluster(openJobsApi(settings), walls);
  } catch (error) {
    return fail(CHECK, (error as Error).message, "set MILLRACE_RAY_ADDRESS, see docs/ray.md");
  }
}

async function checkCluster(api: JobsApi, walls: StandingWalls | null): Promise<Finding> {
  try {
    const version = await api.version();
    // Anybody may ask for the version; a cluster with tokens shows its jobs only to those who have one.
    await api.look("millrace-doctor");
    const problem = whyTooOld(version);
    if (problem !== null) return fail(CHECK, `${api.address}: ${problem}`, "update Ray on every node");
    return judge(`${api.address}: Ray ${version}`, walls);
  } catch (error) {
    const remedy = "check MILLRACE_RAY_ADDRESS, the token, and that the cluster's dashboard runs";
    return fail(CHECK, `${api.address}: ${describeRayTrouble(error)}`, remedy);
  }
}

function judge(cluster: string, walls: StandingWalls | null): Finding {
  if (!walls) return ok(CHECK, cluster);
  const { level, gap } = walls;
  const care = "let only those deploy whom you trust with the whole cluster; see docs/ray.md";
  const told = `${cluster}; isolation of apps there: ${level}`;
  if (level === "none")
    return warn(CHECK, `${told}, so that each can do whatever Ray's user can (${gap})`, care);
  return gap === null
    ? ok(CHECK, told)
    : warn(CHECK, `${told}, but they can connect to Ray itself: ${gap}`, care);
}
