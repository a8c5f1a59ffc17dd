import { availableParallelism, totalmem } from "node:os";
import { HARDWARE, NOTIFICATIONS } from "../shapes/apps.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";

const TAG = "Installation";
/** What this installation has to offer. */
export function hardwareOperations(): AnyOperation[] {
  return [
    operation({
      method: "GET",
      path: "/v2/hardware",
      id: "listHardware",
      tag: TAG,
      summary: "List the hardware that apps can run on",
      access: "any",
      response: HARDWARE,
      handle: () => [
        {
          name: "CPU",
          provider: "local",
          cpu: availableParallelism(),
          memoryGb: Math.round(totalmem() / 1e8) / 10,
          gpuCount: 0,
        },
      ],
    }),
    operation({
      method: "GET",
      path: "/v2/notifications",
      id: "listNotifications",
      tag: TAG,
      summary: "List notices for clients; always empty",
      access: null,
      response: NOTIFICATIONS,
      handle: () => [],
    }),
  ];
}
