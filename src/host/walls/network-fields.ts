/** What the agent is told of an app's network: names and values. */
export type NetworkFields = readonly (readonly [string, string])[];

/** It may not use any. */
export const NO_NETWORK: NetworkFields = [["network", "false"]];

/** The kernel can ask the agent about system calls: unix sockets work where only it can keep them apart. */
export const NOTIFIER: NetworkFields = [["notifier", "true"]];
