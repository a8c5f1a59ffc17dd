import type { Settings } from "../config/setting-keys.ts";
import { KubernetesApi } from "./kubernetes/api.ts";
import { findCluster } from "./kubernetes/cluster-access.ts";
import { type KubernetesParts, KubernetesPlace } from "./kubernetes/place.ts";
import { RayPlace } from "./ray/place.ts";
import type { SeatPlace } from "./agent/seat-place.ts";

export type PlaceParts = Omit<KubernetesParts, "api" | "seatAddresses" | "forImages">;

/** Opens the remote place that the settings name. The caller closes it. */
export async function startPlace(parts: PlaceParts): Promise<SeatPlace> {
  const { settings } = parts;
  if (settings.engine === "ray") return await RayPlace.open(parts);
  const seatAddresses = [addressOf(settings)];
  const access = findCluster(settings, process.env);
  const open = async (namespace: string, forImages: KubernetesPlace | null): Promise<KubernetesPlace> => {
    const api = new KubernetesApi({ ...access, namespace });
    return await KubernetesPlace.open({ ...parts, api, seatAddresses, forImages });
  };
  const apart = settings.registry === null ? null : settings.buildkitNamespace;
  if (apart === null || apart === access.namespace) return await open(access.namespace, null);
  // Seats that build images go to a namespace that admits BuildKit.
  const forImages = await open(apart, null);
  try {
    return await open(access.namespace, forImages);
  } catch (error) {
    await forImages.close();
    throw error;
  }
}

/** The address at which pods reach this machine cannot be guessed. */
function addressOf({ seatUrl }: Settings): string {
  if (seatUrl !== null) return new URL(seatUrl).host;
  throw new Error(
    "MILLRACE_ENGINE=kubernetes needs MILLRACE_SEAT_URL, by which pods reach this service, such as https://10.0.0.5:4300",
  );
}
