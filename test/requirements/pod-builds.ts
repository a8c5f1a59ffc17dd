import { section } from "./row.ts";

/** Builds on the machines that apps will run on. */
export const POD_BUILDS = {
  ...section("docs/kubernetes.md: Builds", {
    "pod-builds.build":
      "Where apps run in pods, commands, packages and bytecode are made in a pod of the image they will run in.",
    "pod-builds.own": "Commands of a build in a pod that install packages have an environment of their own.",
    "pod-builds.reuse":
      "The same packages for the same image are built once; what names them holds the image's digest.",
    "pod-builds.here":
      "What was built in pods is fetched or built again where the service runs apps itself from then on.",
    "pod-builds.failures":
      "What fails in such a build is told as on a plain host: in its log, and as its reason.",
    "pod-builds.cancel": "A build that is cancelled ends its pod, and leaves nothing behind.",
    "pod-builds.lost":
      "A build's pod that dies, has no machine or no image fails the build with the cluster's own reason.",
    "pod-builds.back": "A build goes on when its agent comes back after a loss; no step runs twice.",
    "pod-builds.order": "An invalid or unexpected message of an agent fails its build.",
    "pod-builds.judged":
      "What a build sends is judged entry by entry, bounded, and written anew before it is stored.",
    "pod-builds.walls":
      "A build's pod has the walls of a seat, sees no storage and reaches only what is public.",
    "pod-builds.image":
      "An app may name an image of its own; the agent is brought into it from the worker image.",
    "pod-builds.named": "No app names an image by an id, by which a machine would run whatever image it has.",
    "pod-builds.pinned":
      "A version whose image is named by a tag runs the digest that its packages were built for.",
    "pod-builds.refused":
      "Without a registry, images that would have to be built are refused with what to set, and what to do instead.",
    "buildkit.built":
      "With a registry, BuildKit builds a Dockerfile or system packages in a pod; the version runs the image by digest.",
    "buildkit.start": "An image starts as its Dockerfile says: WORKDIR, ENV, ENTRYPOINT and CMD.",
    "buildkit.walls":
      "BuildKit has a container of its own, which sees neither the seat's ticket nor what opens the registry.",
    "buildkit.logins":
      "The service never reads what opens the registry; logins of a client open other registries for its build alone.",
    "buildkit.projects": "No project builds on, or runs, an image of another one in the same registry.",
    "buildkit.reasons":
      "What keeps BuildKit from starting, or fails an image, is in the build's log and its reason.",
    "buildkit.tokens":
      "Images go to a registry that takes tokens, whose token server has a certificate of a private authority.",
    "buildkit.left": "The build of an image that is cancelled or lost leaves nothing in the cluster.",
    "buildkit.confined":
      "The namespace where images are built admits no pod that has more rights than BuildKit needs.",
    "buildkit.apart":
      "Images are built in a namespace of their own, if one is set; doctor asks the cluster if it admits such pods.",
  }),
};
