import type { Reader } from "./readers.ts";
import { isTable } from "./toml.ts";

/** What an operator may add to the pods of seats. Values go to Kubernetes as they are, which checks them itself. */
export type PodOverrides = {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Fields of a pod's `spec`, each of `SPEC_FIELDS`. */
  readonly spec: Readonly<Record<string, unknown>>;
};

/** Where pods run and how they are pulled; nothing that opens their walls or changes what runs in them. */
const SPEC_FIELDS: ReadonlySet<string> = new Set([
  "dnsConfig",
  "dnsPolicy",
  "hostAliases",
  "hostUsers",
  "imagePullSecrets",
  "nodeSelector",
  "priorityClassName",
  "schedulerName",
  "terminationGracePeriodSeconds",
  "tolerations",
  "topologySpreadConstraints",
]);
/** Ours say whose a pod is, and which network it has. */
const OWN_PREFIX = "millrace.dev/";
/** Annotations that would switch AppArmor or seccomp off. */
const WALLS = /(?:^|\.)security\.(?:alpha|beta)\.kubernetes\.io\//;
/** A pod that gets none is killed at once. */
const LEAST_GRACE_SECONDS = 1;
const MAX_CHARS = 16_384;

/** Takes an object whose members are all known. */
export const podOverrides: Reader<PodOverrides> = {
  expects: `a JSON object with any of labels, annotations, ${[...SPEC_FIELDS].join(", ")}`,
  read(given) {
    const raw = typeof given === "string" ? parseJson(given) : given;
    if (!isTable(raw) || JSON.stringify(raw).length > MAX_CHARS) return undefined;
    const { labels = {}, annotations = {}, ...spec } = raw;
    if (!isOthersMap(labels) || !isOthersMap(annotations)) return undefined;
    if (Object.keys(annotations).some((name) => WALLS.test(name))) return undefined;
    // A host's users are kept out of pods, never let in.
    const isSafe = Object.keys(spec).every((name) => SPEC_FIELDS.has(name)) && spec["hostUsers"] !== true;
    const { terminationGracePeriodSeconds: grace } = spec;
    const isGrace = grace === undefined || (Number.isInteger(grace) && Number(grace) >= LEAST_GRACE_SECONDS);
    return isSafe && isGrace ? { labels, annotations, spec } : undefined;
  },
};

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isOthersMap(value: unknown): value is Record<string, string> {
  const isOther = ([name, text]: [string, unknown]): boolean =>
    typeof text === "string" && !name.startsWith(OWN_PREFIX);
  return isTable(value) && Object.entries(value).every(isOther);
}
