/** What the outer keeper is told of an app's network: names and values. */
export type NetworkFields = readonly (readonly [string, string])[];

/** It may not use any. */
export const NO_NETWORK: NetworkFields = [["network", "false"]];
