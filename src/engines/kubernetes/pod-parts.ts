import type { Settings } from "../../config/setting-keys.ts";
import type { PodParts } from "./pod-spec.ts";

/** What the pods of an installation have in common, by its settings. */
export function podPartsOf(
  settings: Settings,
  given: Pick<PodParts, "whose" | "python" | "image">,
): PodParts {
  return {
    ...given,
    replicasPerSeat: settings.replicasPerSeat,
    maxScratchBytes: settings.maxScratchBytes,
    storage: settings.kubernetesStorage,
    overrides: settings.kubernetesPod,
    images: imagesOf(settings),
  };
}

function imagesOf(settings: Settings): PodParts["images"] {
  const { registry, registrySecret: secret, buildkitImage: image, buildkitConfig: config } = settings;
  return registry === null
    ? null
    : { registry, secret, image, config, diskBytes: settings.buildkitDiskBytes };
}
