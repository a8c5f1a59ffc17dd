import { resolve } from "node:path";
import { line, listOf, mapped, matching, optional, publicUrl } from "./readers.ts";
import type { Reader } from "./readers.ts";
import type { SettingKey } from "./setting-key.ts";

/** How a Ray cluster is reached, and what seats there ask for. */
export type RaySettings = {
  /** Of the dashboard, without a trailing slash. */
  readonly rayAddress: string | null;
  readonly rayToken: string | null;
  /** Absolute. */
  readonly rayTokenFile: string | null;
  /** By the names that the cluster gave them. */
  readonly rayResources: Readonly<Record<string, number>>;
};

const MAX_RESOURCES = 16;
const RESOURCE = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}=(?:0*[1-9]\d{0,5}|0?\.\d{1,4})$/;
const RESERVED: ReadonlySet<string> = new Set(["CPU", "GPU", "memory", "object_store_memory"]);

const resources: Reader<Readonly<Record<string, number>>> = mapped(
  listOf(
    `at most ${MAX_RESOURCES} resources such as apps=1,ssd=0.5`,
    matching(
      "a resource such as apps=1",
      (text) => RESOURCE.test(text) && !RESERVED.has(text.split("=")[0]!),
    ),
    MAX_RESOURCES,
  ),
  (pairs) =>
    Object.fromEntries(
      pairs.map((pair) => {
        const [name = "", amount] = pair.split("=");
        return [name, Number(amount)];
      }),
    ),
);

/** It is sent as a header. */
const token: Reader<string> = {
  ...matching("a token of at most 4096 letters, digits and signs", (text) => /^[!-~]{1,4096}$/.test(text)),
  secret: true,
};

/** Their rows, among those of all settings. */
export const RAY_KEYS: { readonly [K in keyof RaySettings]: SettingKey<RaySettings[K]> } = {
  rayAddress: {
    name: "ray_address",
    reader: optional(publicUrl()),
    default: null,
    meaning:
      "The address of the Ray cluster's dashboard, which takes jobs, such as http://10.0.0.5:8265; required with engine = ray.",
  },
  rayToken: {
    name: "ray_token",
    reader: optional(token),
    default: null,
    meaning: "The token of the Ray cluster, if it asks for one.",
  },
  rayTokenFile: {
    name: "ray_token_file",
    reader: optional(mapped(line(4096), (path) => resolve(path))),
    default: null,
    meaning: "A file with that token, which is read for each request, so that it can be replaced.",
  },
  rayResources: {
    name: "ray_resources",
    reader: resources,
    default: "",
    meaning:
      "Resources of the Ray cluster that each replica asks for beside CPU, memory and GPU, such as apps=1.",
  },
};
