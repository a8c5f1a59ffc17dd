import type { Settings } from "../../config/setting-keys.ts";
import { ApiError } from "./api.ts";
import type { KubernetesApi } from "./api.ts";
import { buildWorkload } from "../agent/build-seat.ts";
import { podPartsOf } from "./pod-parts.ts";
import { podOf } from "./pod-spec.ts";

const NOBODY = "00000000-0000-4000-8000-000000000000";
const WHOSE = { installationId: "doctor", nodeId: "doctor" };
const ORDER = { seatId: "s-doctor", addresses: [], authority: "", ticket: "", graceMs: 0 };
const WISH = {
  buildId: NOBODY,
  projectId: "p-doctor",
  bundle: "",
  python: null,
  image: null,
  containerRuntime: null,
  memoryBytes: null,
  buildsImage: true,
} as const;

/** Why the cluster would not admit a pod that builds an image, in its own words; null if it would. None is made. */
export async function refusalOfImagePod(
  api: KubernetesApi,
  settings: Settings,
  python: string,
): Promise<string | null> {
  const parts = podPartsOf(settings, { whose: WHOSE, python, image: settings.kubernetesImage ?? "" });
  const body = podOf(parts, NOBODY, ORDER, buildWorkload(WISH));
  try {
    await api.ask({ method: "POST", path: api.pathOf("api/v1", "pods"), query: { dryRun: "All" }, body });
    return null;
  } catch (error) {
    if (error instanceof ApiError && !error.isPassing) return error.message;
    throw error;
  }
}
