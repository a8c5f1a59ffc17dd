/** Earlier ones were not tried: actors that outlive their job, and asyncio in them, behave as these do since then. */
const LEAST_RAY = [2, 40] as const;
/** What the agent of a seat needs. */
const LEAST_PYTHON = [3, 9] as const;

/** Why a cluster with that Ray, and that Python once it is known, cannot be used; null if it can. */
export function whyTooOld(ray: string, python?: string): string | null {
  if (!isAtLeast(ray, LEAST_RAY))
    return `the cluster has Ray ${ray}; ${LEAST_RAY.join(".")} or newer is needed`;
  if (python !== undefined && !isAtLeast(python, LEAST_PYTHON))
    return `the cluster has Python ${python}; ${LEAST_PYTHON.join(".")} or newer is needed`;
  return null;
}

function isAtLeast(version: string, [major, minor]: readonly [number, number]): boolean {
  const [given = 0, second = 0] = version.split(".").map(Number);
  return given > major || (given === major && second >= minor);
}
