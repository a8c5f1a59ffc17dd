import type { Settings } from "../../config/setting-keys.ts";
import { ApiError } from "./api.ts";
import type { KubernetesApi } from "./api.ts";
import type { Clock } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import { pause } from "../../kit/pause.ts";
import { buildWorkload } from "../agent/build-seat.ts";
import { checkPodOf } from "./check-pod.ts";
import { podPartsOf } from "./pod-parts.ts";
import { readPod } from "./pod-state.ts";

/** What came of a pod that was tried. `late`: it had not ended in time, which a large image explains as well. */
export type TriedPod =
  | { readonly kind: "fine"; readonly image: string }
  | { readonly kind: "wrong" | "late"; readonly image: string; readonly why: string };

type Trial = {
  readonly api: KubernetesApi;
  readonly settings: Settings;
  /** The Python of apps that ask for none, such as 3.12.4. */
  readonly python: string;
  /** What the pod has to reach: `host:port`. */
  readonly addresses: readonly string[];
  readonly clock: Clock;
};

const WISH = {
  buildId: "00000000-0000-4000-8000-000000000000",
  projectId: "p-doctor",
  bundle: "",
  python: null,
  image: null,
  containerRuntime: null,
  memoryBytes: null,
} as const;
const WHOSE = { installationId: "doctor", nodeId: "doctor" };
/** As little as it needs, so that it fits anywhere. */
const LIMITS = { memoryBytes: 128e6, cpus: null, cpuShare: 0.1 };
const LOOK_MS = 500;
const MOST_MS = 60_000;

/** Starts a pod of the worker image that checks whether an agent could run in it, and removes it again. */
export async function tryWorkerPod({ api, settings, python, addresses, clock }: Trial): Promise<TriedPod> {
  const parts = podPartsOf(settings, { whose: WHOSE, python, image: settings.kubernetesImage ?? "" });
  const workload = { ...buildWorkload(WISH), limits: LIMITS };
  const { name, image, pod } = checkPodOf(parts, `s-${randomName(12)}`, addresses, workload);
  try {
    await api.ask({ method: "POST", path: api.pathOf("api/v1", "pods"), body: pod });
  } catch (error) {
    if (!(error instanceof ApiError) || error.isPassing) throw error;
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
        const why = seen?.obstacle ?? "nothing is known of why";
        return { kind: "late", image, why: `no pod of it has ended within ${MOST_MS / 1000} s: ${why}` };
      }
      await pause(clock, LOOK_MS);
    }
  } finally {
    await api.ask({ method: "DELETE", path, body: { gracePeriodSeconds: 1 } });
  }
}
