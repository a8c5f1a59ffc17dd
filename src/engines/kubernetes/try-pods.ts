import type { Settings } from "../../config/setting-keys.ts";
import { ApiError, type KubernetesApi } from "./api.ts";
import { type Clock, pause } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import { buildWorkload } from "../agent/build-seat.ts";
import { AGENT_COMMAND, metadataOf, podName, podOf, type PodParts, podPartsOf, specOf } from "./pod-spec.ts";
import { readPod } from "./pod-state.ts";
import type { Workload } from "../engine.ts";

/** The result of a trial pod. `late`: it had not ended in time, perhaps because of a large image. */
export type TriedPod =
  | { readonly kind: "fine"; readonly image: string }
  | { readonly kind: "wrong" | "late"; readonly image: string; readonly why: string };

type Trial = {
  readonly api: KubernetesApi;
  readonly settings: Settings;
  readonly python: string;
  /** Addresses that the pod has to reach: `host:port`. */
  readonly addresses: readonly string[];
  readonly clock: Clock;
};

const NO_ID = "00000000-0000-4000-8000-000000000000";
const WISH = {
  buildId: NO_ID,
  projectId: "p-doctor",
  bundle: "",
  python: null,
  image: null,
  containerRuntime: null,
  memoryBytes: null,
} as const;
const WHOSE = { installationId: "doctor", nodeId: "doctor" };
/** Small, so that it fits anywhere. */
const LIMITS = { memoryBytes: 128e6, cpus: null, cpuShare: 0.1 };
const LOOK_MS = 500;
const MOST_MS = 60_000;

/** Starts a pod that checks whether an agent can run in the worker image, and removes it. */
export async function tryWorkerPod({ api, settings, python, addresses, clock }: Trial): Promise<TriedPod> {
  const workload = { ...buildWorkload(WISH), limits: LIMITS };
  const seatId = `s-${randomName(12)}`;
  const { name, image, pod } = checkPodOf(partsOf(settings, python), seatId, addresses, workload);
  try {
    await api.ask({ method: "POST", path: api.pathOf("api/v1", "pods"), body: pod });
  } catch (error) {
    if (!(error instanceof ApiError) || error.isTransient) throw error;
    return { kind: "wrong", image, why: `the cluster refused it: ${error.message}` };
  }
  const path = api.pathOf("api/v1", "pods", name);
  const endsAt = clock.monotonic() + MOST_MS;
  try {
    for (;;) {
      const seen = readPod(await api.ask({ method: "GET", path }));
      if (seen?.hasSucceeded) return { kind: "fine", image };
      if (seen?.end?.kind === "other") return { kind: "wrong", image, why: seen.end.detail };
      if (seen?.end) return { kind: "wrong", image, why: "it ran out of memory" };
      if (clock.monotonic() >= endsAt) {
        const why = seen?.obstacle ?? "the reason is unknown";
        return { kind: "late", image, why: `no pod of it has ended within ${MOST_MS / 1000} s: ${why}` };
      }
      await pause(clock, LOOK_MS);
    }
  } finally {
    await api.ask({ method: "DELETE", path, body: { gracePeriodSeconds: 1 } });
  }
}

/** Ends the pod even if its maker has died. */
const DEADLINE_SECONDS = 120;

/** The pod of a seat, except that its agent only checks its image and whether it reaches those addresses. */
function checkPodOf(given: PodParts, seatId: string, addresses: readonly string[], workload: Workload) {
  const parts = { ...given, storage: null, replicasPerSeat: 1 };
  const name = podName(seatId, workload);
  const spec = specOf(parts, name, workload);
  const [agent] = spec.containers;
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: metadataOf(parts, name, seatId),
    spec: {
      ...spec,
      activeDeadlineSeconds: DEADLINE_SECONDS,
      containers: [{ ...agent, command: [...AGENT_COMMAND, "--check", ...addresses] }],
      volumes: spec.volumes.map((each) => (each.name === "order" ? { name: each.name, emptyDir: {} } : each)),
    },
  };
  return { name, image: agent.image, pod };
}

function partsOf(settings: Settings, python: string): PodParts {
  return podPartsOf(settings, { whose: WHOSE, python, image: settings.kubernetesImage ?? "" });
}

const ORDER = { seatId: "s-doctor", addresses: [], authority: "", ticket: "", graceMs: 0 };

/** Why the cluster would not admit a pod that builds an image; null if it would. It is a dry run. */
export async function refusalOfImagePod(api: KubernetesApi, settings: Settings, python: string) {
  const workload = buildWorkload({ ...WISH, buildsImage: true });
  const body = podOf(partsOf(settings, python), NO_ID, ORDER, workload);
  try {
    await api.ask({ method: "POST", path: api.pathOf("api/v1", "pods"), query: { dryRun: "All" }, body });
    return null;
  } catch (error) {
    if (error instanceof ApiError && !error.isTransient) return error.message;
    throw error;
  }
}
