import type { MachineRecord } from "../../../src/shapes/hardware.ts";
import { asOwner } from "../as-owner.ts";
import type { TestService } from "../service.ts";

/** The GPUs of the service's machine, as its operator sees them. */
export async function shownGpus(test: TestService): Promise<MachineRecord["gpus"]> {
  const machines = await asOwner(test)<MachineRecord[]>("GET", "/v2/gpus");
  return machines.find(({ isSelf }) => isSelf)?.gpus ?? [];
}

/** Which replicas hold GPUs: of each the app's name, and the numbers of its GPUs (`chat 0+1`). */
export async function holders(test: TestService): Promise<string[]> {
  const held = (await shownGpus(test)).flatMap(({ index, holders: all }) =>
    all.map(({ projectId, appId, containerId }) => ({
      index,
      app: appId.slice(projectId.length + 1),
      containerId,
    })),
  );
  const byReplica = Map.groupBy(held, ({ containerId }) => containerId);
  return Array.from(
    byReplica.values(),
    (gpus) => `${gpus[0]?.app} ${gpus.map(({ index }) => index).join("+")}`,
  ).toSorted();
}
