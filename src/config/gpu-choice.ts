import type { Reader } from "./readers.ts";

/** GPUs of one kind that exist only for tests. */
export type FakeGpuKind = { readonly count: number; readonly model: string; readonly memoryGb: number };

/** Which GPUs of its machine a service uses. */
export type GpuChoice =
  | { readonly kind: "all" }
  | { readonly kind: "none" }
  /** By their numbers or UUIDs. */
  | { readonly kind: "some"; readonly names: readonly string[] }
  | { readonly kind: "fake"; readonly gpus: readonly FakeGpuKind[] };

/** As many as the service reads of one machine. */
const MAX_GPUS = 64;
const MAX_FAKE_GB = 10_000;
const INDEX = /^\d{1,3}$/;
const UUID = /^(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}$/;
const FAKE = "fake:";
const FAKE_KIND = /^(\d{1,2})x([A-Za-z0-9][A-Za-z0-9.-]{0,31}):(\d{1,5})$/;

/** Takes `all`, `none`, indices or UUIDs, or a description of fake GPUs. */
export const gpuChoice: Reader<GpuChoice> = {
  expects: '"all", "none", or a list of indices or UUIDs such as 0,1 or GPU-8f6d…',
  read(raw) {
    const items = Array.isArray(raw) ? (raw as readonly unknown[]).map(textOf) : textOf(raw).split(",");
    const names = items.map((item) => item.trim());
    const [first = ""] = names;
    if (first.startsWith(FAKE)) return fakeChoice([first.slice(FAKE.length), ...names.slice(1)]);
    if (names.length === 1 && (first === "all" || first === "none")) return { kind: first };
    const isList = names.length > 0 && names.length <= MAX_GPUS;
    return isList && names.every(isName) ? { kind: "some", names } : undefined;
  },
};

/** In the file, an index may be a number. */
function textOf(raw: unknown): string {
  return typeof raw === "string" || Number.isSafeInteger(raw) ? String(raw) : "";
}

function isName(name: string): boolean {
  return INDEX.test(name) || UUID.test(name);
}

/** `2xH100:80`, which may be followed by other kinds. */
function fakeChoice(kinds: readonly string[]): GpuChoice | undefined {
  const gpus: FakeGpuKind[] = [];
  for (const kind of kinds) {
    const [, count, model = "", memory] = FAKE_KIND.exec(kind) ?? [];
    const [number, memoryGb] = [Number(count), Number(memory)];
    if (!(number >= 1 && memoryGb >= 1 && memoryGb <= MAX_FAKE_GB)) return undefined;
    gpus.push({ count: number, model, memoryGb });
  }
  const all = gpus.reduce((sum, { count }) => sum + count, 0);
  return all <= MAX_GPUS ? { kind: "fake", gpus } : undefined;
}
