/** What has happened to an app's replicas since the service started, over all its versions. */
export type FleetCounts = {
  starts: number;
  /** Of those, the ones that ended the time without any ready replica. */
  coldStarts: number;
  /** Replicas that ended unexpectedly. */
  deaths: number;
};

/** Nothing has happened yet. */
export function newFleetCounts(): FleetCounts {
  return { starts: 0, coldStarts: 0, deaths: 0 };
}
