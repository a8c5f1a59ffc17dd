import type { Settings } from "../config/setting-keys.ts";
import { KubernetesApi } from "../host/kubernetes/api.ts";
import { findCluster } from "../host/kubernetes/find-cluster.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import { KubernetesPlace } from "./kubernetes/place.ts";
import type { KubernetesParts } from "./kubernetes/place.ts";
import { RayPlace } from "./ray/place.ts";
import type { SeatPlace } from "./remote/seat-place.ts";

export type PlaceParts = Omit<KubernetesParts, "api" | "seatAddresses">;

/** Opens the place on other machines that the settings name. */
export async function startPlace(parts: PlaceParts, life: Lifecycle): Promise<SeatPlace> {
  return parts.settings.engine === "ray" ? await RayPlace.open(parts) : await startPods(parts, life);
}

async function startPods(parts: PlaceParts, life: Lifecycle): Promise<SeatPlace> {
  const { settings } = parts;
  const address = addressOf(settings);
  return await life.start(
    "pods",
    () =>
      KubernetesPlace.open({
        ...parts,
        api: new KubernetesApi(findCluster(settings, process.env)),
        seatAddresses: [address],
      }),
    (place) => place.close(),
  );
}

/** Nobody can guess by which address a pod reaches this machine. */
function addressOf({ seatUrl }: Settings): string {
  if (seatUrl !== null) return new URL(seatUrl).host;
  throw new Error(
    "MILLRACE_ENGINE=kubernetes needs MILLRACE_SEAT_URL, by which pods reach this service, such as https://10.0.0.5:4300",
  );
}
