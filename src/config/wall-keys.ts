import { boolean, cidr, line, listOf, oneOf, optional, size } from "./readers.ts";
import type { SettingKey } from "./setting-key.ts";
import { uidRange } from "./uid-range.ts";
import type { UidRange } from "./uid-range.ts";

/** `auto`, `none`, or the lowest level to accept. */
const ISOLATION_LEVELS = ["auto", "none", "process", "landlock", "userns", "uid"] as const;
/** One of the isolation settings. */
type Isolation = (typeof ISOLATION_LEVELS)[number];

/** What builds and runs images: `auto` is podman where it works, else docker. */
const CONTAINER_ENGINES = ["auto", "podman", "docker", "none"] as const;
/** One of those. */
export type ContainerWish = (typeof CONTAINER_ENGINES)[number];

/** What stands between apps and everything else. */
export type WallSettings = {
  readonly isolation: Isolation;
  readonly maxScratchBytes: number;
  /** Null means that there is no quota. */
  readonly maxProjectStorageBytes: number | null;
  readonly egressOnly: boolean;
  /** CIDRs, every one with its prefix length, here and below. */
  readonly egressAllow: readonly string[];
  readonly networkDeny: readonly string[];
  readonly networkUnenforced: "refuse" | "warn";
  readonly uidRange: UidRange;
  readonly containerEngine: ContainerWish;
  readonly baseImage: string;
};

/** Their rows, among those of all settings. */
export const WALL_KEYS: { readonly [K in keyof WallSettings]: SettingKey<WallSettings[K]> } = {
  isolation: {
    name: "isolation",
    reader: oneOf(ISOLATION_LEVELS),
    default: "auto",
    meaning:
      "Isolation of apps and builds. `auto` is the strongest level that the host gives; a named level is the weakest to accept, and without it the service does not start.",
  },
  maxScratchBytes: {
    name: "max_scratch",
    reader: size("1MB", "1000TB"),
    default: "10GB",
    meaning:
      "How much space the temporary files of a template and its replicas may take, where apps are isolated; beyond that, they are ended.",
  },
  maxProjectStorageBytes: {
    name: "max_project_storage",
    reader: optional(size("1MB", "1000TB")),
    default: null,
    meaning:
      "How much space the persistent storage of a project may take; beyond that, its replicas are ended, and none starts until files are removed. If unset, there is no quota.",
  },
  egressOnly: {
    name: "egress_only",
    reader: boolean(),
    default: "false",
    meaning: 'Treats `network = true` of every app as "egress".',
  },
  egressAllow: {
    name: "egress_allow",
    reader: listOf("a list of address ranges such as 10.0.0.0/8 or fd00::/8", cidr(), 1000),
    default: "",
    meaning: 'Private address ranges that apps with `network = "egress"` may connect to.',
  },
  networkDeny: {
    name: "network_deny",
    reader: listOf("a list of address ranges such as 10.0.0.0/8 or fd00::/8", cidr(), 1000),
    default: "",
    meaning: "Address ranges that no app may connect to, besides the metadata services of clouds.",
  },
  networkUnenforced: {
    name: "network_unenforced",
    reader: oneOf(["refuse", "warn"]),
    default: "refuse",
    meaning:
      'What to do with apps that have `network = "egress"` where the host cannot enforce it: refuse them, or run them with a warning in the build log.',
  },
  uidRange: {
    name: "uid_range",
    reader: uidRange,
    default: "1900000000-1900065535",
    meaning:
      "User and group ids that nobody else on the machine has: on `uid`, each project gets one of them.",
  },
  containerEngine: {
    name: "container_engine",
    reader: oneOf(CONTAINER_ENGINES),
    default: "auto",
    meaning:
      "What builds and runs the images of apps with a Dockerfile, a base image or system packages that the host lacks. `auto` is podman from 5.3.2 on if it works, else docker.",
  },
  baseImage: {
    name: "base_image",
    reader: line(2048),
    default: "docker.io/library/python:{python}-slim-bookworm",
    meaning:
      "The image that apps begin from which need system packages and name no image; `{python}` stands for their Python version.",
  },
};
