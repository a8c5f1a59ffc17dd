import { section } from "./row.ts";

/** Apps that run in images. */
export const IMAGES = {
  ...section("docs/images.md: Builds", {
    "images.dockerfile": "A Dockerfile app is built and serves; its next build finds unchanged layers again.",
    "images.failures":
      "A bad Dockerfile, a registry that is down and a server that ends are told with the failing line.",
    "images.walls":
      "A container has its project's user and storage, no capability and no secret on a command line.",
    "images.port-in-code": "Replicas in containers all have the port that is in their code.",
    "images.functions":
      "Functions run in a base image by the same harness: forks, streams, storage, limits, network.",
    "images.apart": "With podman each project has a store of images of its own.",
    "images.gone": "A missing image is told, and millrace doctor --repair builds it again.",
    "images.collected": "An image goes when its app goes, or its version is no longer kept.",
    "images.dead-service": "When the service dies, its containers end, and nothing of them is left.",
    "images.variables":
      "Secrets reach a container by a file; no program that starts it sees one in its environment.",
    "images.reach":
      "A Dockerfile names no file of the host: podman includes none, and takes images from registries.",
    "images.holes":
      "A podman whose builds are known to let a Dockerfile out is used only by its name; doctor warns.",
    "images.cut-off": "A build that is cancelled leaves no container and no mount.",
    "images.early-end": "A container that is ended while it starts is gone.",
    "images.helpers":
      "A container ends although what waits beside it was killed, or what is attached to it hangs.",
    "images.recipe": "Without a Dockerfile the image is made in the order in which layers are found again.",
    "images.registry-auth":
      "dockerAuth opens a registry for one build; only its logins are used, and none is stored.",
    "images.engine": "podman is used if it works, else docker; doctor tells which, or what to install.",
  }),
} as const;
