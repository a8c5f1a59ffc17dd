import { expect } from "vitest";
import { gpuText, judgeGpu } from "../../../bench/gpu-report.ts";
import type { GpuFigures } from "../../../bench/gpu.ts";
import type { Machine } from "../../../bench/machine.ts";
import { verifies } from "../../verifies.ts";

const NONE = { alone: [], served: [] };
const MACHINE: Machine = {
  cpu: "a processor",
  cores: 16,
  memoryGb: 128,
  system: "Linux",
  node: "v24",
  python: "3.12",
  loadBefore: 0,
};

function figures(
  large: number,
  small: number,
  firstMs: number,
  start: number,
  embeddings: number,
  stepper: number,
): GpuFigures {
  const beside = (alone: number, served: number) => ({ alone: [alone], served: [served] });
  return {
    large: beside(1_000, large),
    small: beside(1_000, small),
    first: { alone: [1, 9, 9, 10, 90], served: [firstMs] },
    start: beside(100, start),
    embeddings: beside(1_000, embeddings),
    stepper: beside(1_000, stepper),
    problem: null,
  };
}

verifies("bench.verdicts", "apps on a GPU are held against the same code alone", () => {
  const met = (...given: Parameters<typeof figures>) => judgeGpu(figures(...given)).map(({ isMet }) => isMet);
  expect(met(990, 800, 12, 120, 950, 990)).toEqual([true, true, true, true, true, true]);
  expect(met(989, 799, 12.1, 121, 949, 989)).toEqual([false, false, false, false, false, false]);
});

verifies("bench.verdicts", "parts of the GPU's benchmark that were left out meet no target", () => {
  const [large, small, first, start, embeddings, stepper] = [NONE, NONE, NONE, NONE, NONE, NONE];
  const some: GpuFigures = { large, small, first, start, embeddings, stepper, problem: "no GPU" };
  const verdicts = judgeGpu(some);
  expect(verdicts.map(({ isMet }) => isMet)).toEqual([null, null, null, null, null, null]);
  expect(gpuText(MACHINE, some, verdicts)).toContain("failed: no GPU");
});

verifies("bench.verdicts", "rates are compared round by round, first tokens by their medians", () => {
  const [large, , first] = judgeGpu({
    ...figures(0, 0, 0, 0, 0, 0),
    large: { alone: [100, 200, 400], served: [90, 200, 410] },
    first: { alone: [6, 7, 100], served: [8, 9, 10] },
  });
  expect(large).toMatchObject({ value: 1, spread: [0.9, 1.025] });
  expect(first).toMatchObject({ value: 2, spread: null });
});
