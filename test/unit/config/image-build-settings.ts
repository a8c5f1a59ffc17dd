import type { ImageBuildSettings } from "../../../src/config/image-build-keys.ts";

/** What is read where nothing is set. */
export const NO_IMAGE_BUILDS: ImageBuildSettings = {
  registry: null,
  registrySecret: null,
  buildkitImage: "docker.io/moby/buildkit:v0.31.2-rootless",
  buildkitNamespace: null,
  buildkitConfig: null,
  buildkitDiskBytes: 20_000_000_000,
};

/** A file with all of them. */
export const GIVEN_IMAGE_BUILDS = {
  registry: "registry.internal:5000/millrace",
  registry_secret: "registry-login",
  buildkit_image: "registry.internal:5000/buildkit:rootless",
  buildkit_namespace: "images",
  buildkit_config: "mirrors",
  buildkit_disk: "30GB",
};

/** What is read of it. */
export const READ_IMAGE_BUILDS: ImageBuildSettings = {
  registry: "registry.internal:5000/millrace",
  registrySecret: "registry-login",
  buildkitImage: "registry.internal:5000/buildkit:rootless",
  buildkitNamespace: "images",
  buildkitConfig: "mirrors",
  buildkitDiskBytes: 30_000_000_000,
};
