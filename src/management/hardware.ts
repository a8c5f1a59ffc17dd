import { availableParallelism, totalmem } from "node:os";
import { z } from "zod";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";

const TAG = "Installation";
const HARDWARE = z.object({
  name: z.string(),
  provider: z.string(),
  cpu: z.number(),
  memoryGb: z.number(),
  gpuCount: z.int(),
});

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
      response: z.array(HARDWARE),
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
      response: z.array(z.object({ message: z.string() })),
      handle: () => [],
    }),
  ];
}
