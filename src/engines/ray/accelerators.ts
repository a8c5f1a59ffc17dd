import { matches } from "../../host/gpus/source.ts";
import type { GpuWish } from "../../model/gpu.ts";

/** The models that Ray lists (`ray.util.accelerators`), and others that it names by the same rule. */
const KNOWN =
  "K80 P4 P100 V100 T4 A10G L4 L40S A100 H20 H100 H200 B200 B300 GB200 GB300 A10 A30 A40 L40".split(" ");
/** Memory in a name, such as `A100_80GB`, which Ray does not know; not that of a MIG instance. */
const MEMORY = /[\s_-]\d{1,4}GI?B?(?![\w.])/gi;

/** Ray's names for the models of a wish, in its order; none if every GPU will do, or if Ray knows none of them. */
export function acceleratorsOf({ models }: GpuWish): string[] {
  const known = models.flatMap((asked) => {
    const model = asked.replaceAll(MEMORY, "");
    return KNOWN.filter((name) => matches(model, { model: name, memoryBytes: 0 }));
  });
  return models.some((asked) => asked.trim().toUpperCase() === "ANY") ? [] : [...new Set(known)];
}
