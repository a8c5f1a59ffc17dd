import { STREAMS } from "./gpu-streams.ts";
import type { Beside, GpuFigures } from "./gpu.ts";
import { type Machine, machineLines } from "./machine.ts";
import { verdictLines } from "./report.ts";
import { divided, judge, medianBy, type Verdict } from "./targets.ts";

/** Apps on a GPU are held against the same code without the service. */
export function judgeGpu({ large, small, first, start, embeddings, stepper }: GpuFigures): Verdict[] {
  const ratio = ({ alone, served }: Beside) => divided(served, alone, (value) => value);
  return [
    judge({
      what: `a billion parameters: ${STREAMS} streams / the loop alone, tokens per second`,
      bound: "at least",
      target: 0.99,
      unit: "ratio",
      ...ratio(large),
    }),
    judge({
      what: `a small model: ${STREAMS} streams / the loop alone, tokens per second`,
      bound: "at least",
      target: 0.8,
      unit: "ratio",
      ...ratio(small),
    }),
    judge({
      what: "first token of a call - of the loop alone, medians",
      bound: "at most",
      target: 3,
      unit: "ms",
      value: differenceOf(first),
      spread: null,
    }),
    judge({
      what: "start from a kept template with setup() / a bare context",
      bound: "at most",
      target: 1.2,
      unit: "ratio",
      ...ratio(start),
    }),
    judge({
      what: "embeddings: a batched function / the loop alone at its best size, texts per second",
      bound: "at least",
      target: 0.95,
      unit: "ratio",
      ...ratio(embeddings),
    }),
    judge({
      what: `a stepper: ${STREAMS} streams / the loop alone, tokens per second`,
      bound: "at least",
      target: 0.99,
      unit: "ratio",
      ...ratio(stepper),
    }),
  ];
}

/** Of the medians. */
function differenceOf({ alone, served }: Beside): number | null {
  const [without, through] = [median(alone), median(served)];
  return without === null || through === null ? null : through - without;
}

/** For people. */
export function gpuText(machine: Machine, figures: GpuFigures, verdicts: readonly Verdict[]): string {
  const { large, small, first, start, embeddings, stepper, problem } = figures;
  const lines = [
    ...machineLines(machine),
    `decoders with ${STREAMS} sequences; contexts of PyTorch`,
    ...rounds("a billion parameters, tokens/s", large),
    ...rounds("a small model, tokens/s", small),
    ...rounds("a context, ms", start),
    ...rounds("embeddings, texts/s", embeddings),
    ...rounds("a stepper, tokens/s", stepper),
  ];
  const [without, through] = [median(first.alone), median(first.served)];
  if (without !== null && through !== null)
    lines.push("", `first token, medians of ${first.served.length}, ms`, ...pair([without], [through], 2));
  if (problem !== null) lines.push("", `failed: ${problem}`);
  return [...lines, "", ...verdictLines(verdicts)].join("\n");
}

function rounds(title: string, { alone, served }: Beside): string[] {
  return alone.length + served.length === 0
    ? []
    : ["", `${title}, round by round`, ...pair(alone, served, 0)];
}

function pair(alone: readonly number[], served: readonly number[], digits: number): string[] {
  const texts = (values: readonly number[]) => values.map((value) => value.toFixed(digits)).join(", ");
  return [`  alone        ${texts(alone)}`, `  as an app    ${texts(served)}`];
}

function median(values: readonly number[]): number | null {
  return medianBy(values, (value) => value);
}
