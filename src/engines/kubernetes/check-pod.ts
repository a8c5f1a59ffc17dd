import type { Workload } from "../engine.ts";
import { NODE, SEAT, labelsOf } from "./labels.ts";
import { AGENT_COMMAND, podName, specOf } from "./pod-spec.ts";
import type { PodParts } from "./pod-spec.ts";

/** So that one whose maker has died ends all the same. */
const DEADLINE_SECONDS = 120;

/**
 * A pod as a seat has one, except that its agent only checks its image and whether it reaches those addresses. It has no
 * order, and no owner: whoever makes it removes it.
 */
export function checkPodOf(
  given: PodParts,
  seatId: string,
  addresses: readonly string[],
  workload: Workload,
): { readonly name: string; readonly image: string; readonly pod: object } {
  const parts = { ...given, storage: null, replicasPerSeat: 1 };
  const { whose, overrides } = parts;
  const name = podName(seatId, workload);
  const spec = specOf(parts, name, workload);
  const [agent] = spec.containers;
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      labels: {
        ...overrides.labels,
        ...labelsOf(whose.installationId),
        [NODE]: whose.nodeId,
        [SEAT]: seatId,
      },
      annotations: overrides.annotations,
    },
    spec: {
      ...spec,
      activeDeadlineSeconds: DEADLINE_SECONDS,
      containers: [{ ...agent, command: [...AGENT_COMMAND, "--check", ...addresses] }],
      volumes: spec.volumes.map((each) => (each.name === "order" ? { name: each.name, emptyDir: {} } : each)),
    },
  };
  return { name, image: agent.image, pod };
}
