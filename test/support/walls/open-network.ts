import type { NetworkWall } from "../../../src/host/walls/network.ts";

/** Nothing between an app and the network. */
export const OPEN_NETWORK: NetworkWall = {
  egressOnly: false,
  egressAllow: [],
  networkDeny: [],
  networkUnenforced: "refuse",
  hasWalls: false,
  gap: "nothing is enforced in this test",
  managementPort: () => 0,
  neighbours: null,
};
