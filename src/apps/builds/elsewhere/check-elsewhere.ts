import type { AppConfig } from "../../../model/app-config.ts";
import { BuildError } from "../build-error.ts";
import { listed, requireEntrypoint } from "../host-fit.ts";
import type { BuildSite } from "../site.ts";

const OWN_IMAGE =
  "Build an image that has them, push it to a registry that the cluster pulls from, and name it in deployment.docker_base_image_url";

/**
 * Holds what an app asks for against what machines elsewhere have: images that somebody else has built. Throws a
 * `BuildError` for what the app cannot be without, and warns of the rest. Gives its own image; null for the usual one.
 */
export async function checkElsewhere(config: AppConfig, site: BuildSite): Promise<string | null> {
  const { customRuntime, dependencies } = config;
  const { dockerBaseImageUrl: image, requireImage } = config.deployment;
  if (customRuntime && customRuntime.dockerfilePath !== null) {
    throw new BuildError(
      "runtime.custom.dockerfile_path: this service builds no images for its cluster. Build the image yourself, push it to a " +
        "registry that the cluster pulls from, name it in deployment.docker_base_image_url, and start the server by runtime.custom.entrypoint",
    );
  }
  requireEntrypoint(config);
  const conda = await listed("conda", dependencies, site);
  if (conda.length > 0) {
    throw new BuildError(
      `Conda packages are not supported (${conda.join(", ")}): list what is on PyPI under [dependencies.pip]. ${OWN_IMAGE}`,
    );
  }
  const apt = await listed("apt", dependencies, site);
  // An image of the app's own may have them.
  if (apt.length > 0 && image === null) {
    const text = `system packages are not installed on the machines of the cluster: ${apt.join(", ")}. ${OWN_IMAGE}`;
    if (requireImage) throw new BuildError(`require_image is set, but ${text}`);
    site.say(
      `warning: ${text}. The build goes on without them; to have it fail instead, set require_image = true`,
      "stderr",
    );
  }
  if (image !== null && !image.includes("@sha256:"))
    site.say(
      "warning: deployment.docker_base_image_url names no digest (…@sha256:…). Packages are built for the image that has the name " +
        "now, and replicas run the one that has it when they start",
      "stderr",
    );
  if (site.registryAuth !== null && image !== null)
    site.say(
      "warning: the logins of your Docker configuration are not used: the cluster pulls images with imagePullSecrets of MILLRACE_KUBERNETES_POD",
      "stderr",
    );
  if (site.wantsUv) site.say("warning: use_uv is set, but builds in the cluster use pip", "stderr");
  return image;
}
