import { PROJECT_ID } from "../../../model/names.ts";
import type { ImageBuilds } from "../../../engines/build-seats.ts";
import { BuildError, type BuildSite } from "../site.ts";
import { insideBundle } from "../bundle-files.ts";
import { listed, requireEntrypoint } from "../host-fit.ts";
import { baseOf, warnOfIgnored } from "../images/wanted-image.ts";
import { imageFolder, type ImagePlan } from "./build-image.ts";

/** What an app runs in on other machines. */
export type RemoteFit = {
  /** An image that exists already; null for the usual one, or one that is to be built. */
  readonly image: string | null;
  /** What is to be built first; null for nothing. */
  readonly plan: ImagePlan | null;
};

const SET_REGISTRY =
  "the operator sets MILLRACE_REGISTRY to have images built in the cluster (docs/kubernetes.md)";
const OWN_IMAGE =
  "Or build the image yourself, push it to a registry that the cluster pulls from, and name it by its digest in deployment.docker_base_image_url";
const OWN_SERVER = `${OWN_IMAGE}, with runtime.custom.entrypoint to start the server`;

/** Compares an app with the cluster: its images, and BuildKit if a registry is set. Throws a `BuildError`, or warns. */
export async function checkRemote(images: ImageBuilds | null, site: BuildSite): Promise<RemoteFit> {
  const { config } = site;
  if (config.deployment.useUv)
    site.say("warning: use_uv is set, but builds in the cluster use pip", "stderr");
  const { dockerBaseImageUrl: image } = config.deployment;
  if (image !== null) refuseForeign(image, images?.registry ?? null, site.projectId);
  const dockerfile = config.customRuntime?.dockerfilePath ?? null;
  if (dockerfile !== null) {
    if (images === null)
      throw new BuildError(
        `runtime.custom.dockerfile_path: this service builds no images in its cluster: ${SET_REGISTRY}. ${OWN_SERVER}`,
      );
    const file = await insideBundle(site.bundleDir, dockerfile);
    if (file === null) throw new BuildError(`dockerfile_path: there is no ${dockerfile} in the bundle`);
    warnOfIgnored(site);
    return { image: null, plan: { kind: "dockerfile", file } };
  }
  requireEntrypoint(site);
  const conda = await listed("conda", site);
  if (conda.length > 0)
    throw new BuildError(
      `Conda packages are not supported (${conda.join(", ")}): list what is on PyPI under [dependencies.pip]. ${OWN_IMAGE}`,
    );
  const plan = await packagesPlan(images, site);
  if (site.registryAuth && image !== null && plan === null)
    site.say(
      "warning: the logins of your Docker configuration are not used: the cluster pulls images with imagePullSecrets of MILLRACE_KUBERNETES_POD",
      "stderr",
    );
  return { image, plan };
}

/** Machines take it for the beginning of an id, and run an image that they have, without asking a registry. */
const IMAGE_ID = /^sha256:/;

/** One login opens all projects' images. A registry has several names, so a project's id as a folder counts on every host. */
function refuseForeign(image: string, registry: string | null, projectId: string): void {
  if (IMAGE_ID.test(image))
    throw new BuildError(
      `deployment.docker_base_image_url: ${image} is an id; name the image by its repository`,
    );
  if (registry === null) return;
  const name = image.toLowerCase();
  const isBelow = (folder: string): boolean => name.startsWith(`${folder}/`);
  const folders = name.split("/").slice(0, -1);
  const isOthers = folders.some((each) => PROJECT_ID.test(each) && each !== projectId);
  if (isOthers || (isBelow(registry) && !isBelow(imageFolder(registry, projectId))))
    throw new BuildError(`deployment.docker_base_image_url: ${image} is not an image of this project`);
}

async function packagesPlan(images: ImageBuilds | null, site: BuildSite): Promise<ImagePlan | null> {
  const apt = await listed("apt", site);
  const { dockerBaseImageUrl: image, requireImage } = site.config.deployment;
  if (apt.length === 0) return null;
  if (images !== null && site.images !== null)
    return { kind: "packages", base: baseOf(site.images.baseImage, site), apt };
  // An image of the app's own may have them.
  if (image !== null) return null;
  const text = `system packages are not installed on the machines of the cluster: ${apt.join(", ")}; ${SET_REGISTRY}. ${OWN_IMAGE}`;
  if (requireImage) throw new BuildError(`require_image is set, but ${text}`);
  site.say(
    `warning: ${text}. The build goes on without them; to have it fail instead, set require_image = true`,
    "stderr",
  );
  return null;
}
