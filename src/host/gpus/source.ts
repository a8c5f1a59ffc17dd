import type { Gpu, GpuKind, GpuReading, MachineGpus } from "../../model/gpu.ts";
import type { Matches } from "./room.ts";

/** The GPUs of this machine, watched. */
export type GpuSource = {
  current(): MachineGpus;
  /** One for each of the current GPUs; older than a few seconds only if the driver does not answer: then all is null. */
  readings(): readonly GpuReading[];
  /** Resolves when everything is read anew; with false if the driver does not answer. Never rejects. */
  look(): Promise<boolean>;
  /** Calls it after each change of `current()`; returns a function that stops that. */
  onChange(listener: () => void): () => void;
  close(): Promise<void>;
};

/** The source of a machine without GPUs. It costs nothing. */
export const NO_GPUS: GpuSource = without(null);

/** A source without GPUs, and the reason why none of those that seem to be there can be used. */
export function without(trouble: string | null): GpuSource {
  const current: MachineGpus = { driver: null, gpus: [], trouble };
  return {
    current: () => current,
    readings: () => [],
    look: () => Promise.resolve(true),
    onChange: () => () => {},
    close: () => Promise.resolve(),
  };
}

/** The "GB" in the name of a GPU: the 80 GB of an H100 are 79.6 of these. All other GB are 10⁹ bytes. */
export const NAMED_GB = 2 ** 30;

/** Says which GPUs there are, for people: `2 × H100 (80 GB), 1 of them out of service; T4 (15 GB)`. */
export function describeGpus(gpus: readonly (GpuKind & Partial<Pick<Gpu, "fault">>)[]): string {
  const kinds = Map.groupBy(gpus, ({ model, memoryBytes }) => `${model} (${namedGb(memoryBytes)} GB)`);
  return [...kinds]
    .map(([kind, { length }]) => {
      const faulty = kinds.get(kind)?.filter(({ fault = null }) => fault !== null).length ?? 0;
      const number = length === 1 ? kind : `${length} × ${kind}`;
      if (faulty === 0) return number;
      return `${number}, ${faulty === length ? "" : `${faulty} of them `}out of service`;
    })
    .join("; ");
}

/** The memory of a GPU as its name has it. */
export function namedGb(bytes: number): number {
  return Math.round(bytes / NAMED_GB);
}

/** Words in names of GPUs that do not tell models apart. The memory does, but is known besides. */
const NOISE = new Set(
  (
    "NVIDIA TESLA GEFORCE QUADRO GRID GPU GENERATION EDITION SERVER WORKSTATION BLACKWELL " +
    "PCIE SXM SXM2 SXM3 SXM4 SXM5 SXM6 NVL HBM2 HBM2E HBM3 HBM3E CORE TENSOR MIG"
  ).split(" "),
);
/** In front of a model, the way it is written for hosted services: `HOPPER_H200`. */
const ARCHITECTURES = new Set(["PASCAL", "VOLTA", "TURING", "AMPERE", "ADA", "LOVELACE", "HOPPER"]);
/** Models that hosted services offer under the name of a sibling. */
const ALSO: Readonly<Record<string, string>> = { ADA_L40: "L40S", AMPERE_A10: "A10G" };
const MEMORY = /^(\d{1,4})GI?B?$/;
const PROFILE = /\b(?:\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb(?:\+[a-z0-9.]{1,16})*/i;
const MAX_MODEL_CHARS = 64;

/** More than the names that apps of one machine ask for, times its models. */
const MAX_REMEMBERED = 10_000;

/** Compares each name with each model once: while replicas wait, every decision asks for all of them. */
export function remembering(matches: Matches): Matches {
  const known = new Map<string, boolean>();
  return (asked, gpu) => {
    const key = `${gpu.model}\n${gpu.memoryBytes}\n${asked}`;
    const before = known.get(key);
    if (before !== undefined) return before;
    if (known.size >= MAX_REMEMBERED) known.clear();
    const found = matches(asked, gpu);
    known.set(key, found);
    return found;
  };
}

type Words = {
  readonly model: string;
  /** Of a MIG instance, such as `1g.10gb`. */
  readonly profile: string | null;
  /** In GB, if the name has it. */
  readonly memory: number | null;
};

function wordsOf(name: string): Words {
  const [profile = null] = PROFILE.exec(name) ?? [];
  const words = (profile === null ? name : name.replace(profile, " "))
    .toUpperCase()
    .split(/[^A-Z0-9]+/)
    .filter((word) => word !== "");
  const kept = words.filter((word) => !NOISE.has(word) && !MEMORY.test(word));
  const memory = words.map((word) => MEMORY.exec(word)?.[1]).find((found) => found !== undefined);
  return {
    model: kept.join("").slice(0, MAX_MODEL_CHARS),
    profile: profile?.toLowerCase() ?? null,
    memory: memory === undefined ? null : Number(memory),
  };
}

/** The model as people write it: `NVIDIA H100 80GB HBM3` is an `H100`; a MIG instance of it an `H100-1g.10gb`. */
export function modelOf(name: string, profile: string | null = null): string {
  const model = wordsOf(name).model || "GPU";
  return profile === null ? model : `${model}-${profile}`;
}

/**
 * Whether a GPU is what an app asks for: `H200`, `h200`, `NVIDIA_H200`, `HOPPER_H200`, `A100_40GB`, `RTX 4090`,
 * `H100-1g.10gb`. `ANY` matches each, and otherwise an instance of a GPU does not match the whole GPU's name.
 */
export const matches: Matches = remembering(compare);

function compare(asked: string, gpu: GpuKind): boolean {
  const text = asked.trim().toUpperCase();
  if (text === "ANY") return true;
  const [first = "", ...rest] = text.split(/[^A-Z0-9.+]+/).filter((word) => word !== "" && word !== "NVIDIA");
  const isPrefixed = rest.length > 0 && ARCHITECTURES.has(first);
  const wish = wordsOf((isPrefixed ? rest : [first, ...rest]).join(" "));
  if (wish.model === "") return false;
  const own = wordsOf(gpu.model);
  const also = isPrefixed ? ALSO[`${first}_${wish.model}`] : undefined;
  if (bare(wish.model) !== bare(own.model) && also !== own.model) return false;
  return wish.profile === own.profile && hasMemory(gpu.memoryBytes, wish.memory);
}

/** `A6000` and `RTX A6000` are one model. */
function bare(model: string): string {
  return model.replace(/^RTX/, "");
}

/** The driver keeps some of the memory that a name promises: a T4 with 16 GB has 15. */
const SHORTAGE = 0.1;

function hasMemory(bytes: number, gb: number | null): boolean {
  return gb === null || Math.abs(bytes / NAMED_GB - gb) <= gb * SHORTAGE;
}

/** A MIG instance as the driver describes it. */
export type Slices = { readonly gpu: number; readonly compute: number; readonly memoryMb: number };

/** The profile of a MIG instance, such as `1g.10gb`: from its name if the driver has it there, else as nvidia-smi makes it. */
export function profileOf(name: string, slices: Slices | null, gpuBytes: number): string {
  const [named] = PROFILE.exec(name) ?? [];
  if (named !== undefined) return named.toLowerCase();
  if (slices === null) return "mig";
  const eighths = Math.ceil(((slices.memoryMb * 2 ** 20) / Math.max(1, gpuBytes)) * 8) / 8;
  const memory = `${slices.gpu}g.${Math.round(eighths * Math.ceil(gpuBytes / NAMED_GB))}gb`;
  return slices.compute === slices.gpu ? memory : `${slices.compute}c.${memory}`;
}
