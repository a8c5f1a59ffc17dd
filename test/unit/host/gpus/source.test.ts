import { expect, test } from "vitest";
import { FakeGpus } from "../../../../src/host/gpus/fake.ts";
import { describeGpus, matches, modelOf, NO_GPUS, profileOf } from "../../../../src/host/gpus/source.ts";
import { verifies } from "../../../verifies.ts";

const MIB = 2 ** 20;

/** As drivers name them, with the memory that they report. */
const NAMED: readonly (readonly [name: string, model: string, mib: number])[] = [
  ["NVIDIA H100 80GB HBM3", "H100", 81_559],
  ["NVIDIA H100 PCIe", "H100", 81_559],
  ["NVIDIA H100 NVL", "H100", 95_830],
  ["NVIDIA H200", "H200", 143_771],
  ["NVIDIA B200", "B200", 183_359],
  ["NVIDIA GH200 480GB", "GH200", 97_871],
  ["NVIDIA A100-SXM4-40GB", "A100", 40_960],
  ["NVIDIA A100 80GB PCIe", "A100", 81_920],
  ["Tesla T4", "T4", 15_360],
  ["Tesla V100-SXM2-16GB", "V100", 16_384],
  ["NVIDIA L4", "L4", 23_034],
  ["NVIDIA L40", "L40", 46_068],
  ["NVIDIA L40S", "L40S", 46_068],
  ["NVIDIA A10", "A10", 23_028],
  ["NVIDIA A10G", "A10G", 23_028],
  ["NVIDIA GeForce RTX 4090", "RTX4090", 24_564],
  ["NVIDIA GeForce RTX 4070 Ti SUPER", "RTX4070TISUPER", 16_376],
  ["NVIDIA RTX 6000 Ada Generation", "RTX6000ADA", 49_140],
  ["Quadro RTX 6000", "RTX6000", 24_576],
  ["NVIDIA RTX A6000", "RTXA6000", 49_140],
  ["NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTXPRO6000", 97_887],
];
const gpuOf = (name: string, profile: string | null = null) => {
  const [, , mib = 0] = NAMED.find(([each]) => each === name) ?? [];
  return { model: modelOf(name, profile), memoryBytes: mib * MIB };
};

verifies("gpus.models", "a GPU has the short name that people use for it", () => {
  for (const [name, model] of NAMED) expect([name, modelOf(name)]).toEqual([name, model]);
  expect(modelOf("NVIDIA H100 80GB HBM3", "1g.10gb")).toBe("H100-1g.10gb");
  expect(modelOf("")).toBe("GPU");
  expect(modelOf("X".repeat(200))).toHaveLength(64);
});

verifies("gpus.models", "an app names a GPU the way people write it", () => {
  const matching: readonly (readonly [asked: string, name: string])[] = [
    ["ANY", "Tesla T4"],
    ["any", "NVIDIA H200"],
    ["H200", "NVIDIA H200"],
    ["h200", "NVIDIA H200"],
    ["NVIDIA_H200", "NVIDIA H200"],
    ["nvidia h200", "NVIDIA H200"],
    ["HOPPER_H200", "NVIDIA H200"],
    ["H200_141GB", "NVIDIA H200"],
    ["H100", "NVIDIA H100 80GB HBM3"],
    ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"],
    ["BLACKWELL_B200", "NVIDIA B200"],
    ["A100", "NVIDIA A100-SXM4-40GB"],
    ["A100", "NVIDIA A100 80GB PCIe"],
    ["A100_80GB", "NVIDIA A100 80GB PCIe"],
    ["A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"],
    ["AMPERE_A100", "NVIDIA A100-SXM4-40GB"],
    ["AMPERE_A100", "NVIDIA A100 80GB PCIe"],
    ["AMPERE_A100_40GB", "NVIDIA A100-SXM4-40GB"],
    ["A100-80GB", "NVIDIA A100 80GB PCIe"],
    ["TURING_T4", "Tesla T4"],
    ["T4-16GB", "Tesla T4"],
    ["ADA_L4", "NVIDIA L4"],
    ["ADA_L40", "NVIDIA L40"],
    ["ADA_L40", "NVIDIA L40S"],
    ["AMPERE_A10", "NVIDIA A10G"],
    ["L40S", "NVIDIA L40S"],
    ["RTX_4090", "NVIDIA GeForce RTX 4090"],
    ["GeForce RTX 4090", "NVIDIA GeForce RTX 4090"],
    ["4090", "NVIDIA GeForce RTX 4090"],
    ["RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation"],
    ["A6000", "NVIDIA RTX A6000"],
    ["V100", "Tesla V100-SXM2-16GB"],
  ];
  for (const pair of matching) expect([...pair, matches(pair[0], gpuOf(pair[1]))]).toEqual([...pair, true]);
  const different: readonly (readonly [asked: string, name: string])[] = [
    ["H100", "NVIDIA H200"],
    ["AMPERE_A100_40GB", "NVIDIA A100 80GB PCIe"],
    ["A100-80GB", "NVIDIA A100-SXM4-40GB"],
    ["A10", "NVIDIA A100-SXM4-40GB"],
    ["A10", "NVIDIA A10G"],
    ["L4", "NVIDIA L40"],
    ["L40", "NVIDIA L40S"],
    ["HOPPER_L40", "NVIDIA L40S"],
    ["RTX 6000", "NVIDIA RTX 6000 Ada Generation"],
    ["CPU", "NVIDIA H200"],
    ["", "NVIDIA H200"],
    ["NVIDIA", "NVIDIA H200"],
    ["_-_", "NVIDIA H200"],
  ];
  for (const pair of different) expect([...pair, matches(pair[0], gpuOf(pair[1]))]).toEqual([...pair, false]);
});

verifies("gpus.models", "a MIG instance is named by its profile, and is not its GPU", () => {
  const part = gpuOf("NVIDIA H100 80GB HBM3", "1g.10gb");
  for (const asked of [
    "H100-1g.10gb",
    "NVIDIA_H100_1G.10GB",
    "HOPPER_H100_1g.10gb",
    "H100 MIG 1g.10gb",
    "ANY",
  ])
    expect([asked, matches(asked, part)]).toEqual([asked, true]);
  for (const asked of ["H100", "H100-2g.20gb", "A100-1g.10gb"])
    expect([asked, matches(asked, part)]).toEqual([asked, false]);
  expect(matches("H100-1g.10gb", gpuOf("NVIDIA H100 80GB HBM3"))).toBe(false);
});

test("a profile is that of the driver's name, or made as nvidia-smi makes it", () => {
  const h100 = 81_559 * MIB;
  expect(profileOf("NVIDIA H100 80GB HBM3 MIG 1g.10gb", null, h100)).toBe("1g.10gb");
  expect(profileOf("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", null, h100)).toBe("1c.3g.40gb");
  expect(profileOf("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", null, h100)).toBe("1g.10gb+me");
  expect(profileOf("A100", { gpu: 1, compute: 1, memoryMb: 4_864 }, 40_960 * MIB)).toBe("1g.5gb");
  expect(profileOf("A100", { gpu: 3, compute: 1, memoryMb: 19_968 }, 40_960 * MIB)).toBe("1c.3g.20gb");
  expect(profileOf("", { gpu: 1, compute: 1, memoryMb: 0 }, 0)).toBe("1g.0gb");
  expect(profileOf("", null, h100)).toBe("mig");
});

verifies(
  "gpus.fake",
  "fake GPUs have no device files, fail when a test says so, and show what it says",
  async () => {
    const fake = new FakeGpus([
      { count: 1, model: "A100", memoryGb: 40 },
      { count: 2, model: "T4", memoryGb: 16 },
    ]);
    const { gpus } = fake.current();
    expect(gpus.map(({ index, model, files, fault }) => ({ index, model, files, fault }))).toEqual(
      ["A100", "T4", "T4"].map((model, index) => ({ index, model, files: [], fault: null })),
    );
    expect(new Set(gpus.map(({ uuid }) => uuid)).size).toBe(3);
    expect(gpus.every((gpu) => matches(gpu.model, gpu))).toBe(true);
    expect(matches("A100_40GB", gpus[0]!)).toBe(true);
    let changes = 0;
    const stop = fake.onChange(() => (changes += 1));
    fake.fail(1, "it fell off the bus");
    expect(fake.current().gpus.map(({ fault }) => fault)).toEqual([null, "it fell off the bus", null]);
    expect(describeGpus(fake.current().gpus)).toBe("A100 (40 GB); 2 × T4 (16 GB), 1 of them out of service");
    fake.show(0, { usedBytes: 7 });
    await fake.look();
    expect(fake.readings().map(({ usedBytes }) => usedBytes)).toEqual([7, 0, 0]);
    stop();
    fake.fail(1, null);
    expect(changes).toBe(1);
    await fake.close();
  },
);

test("a machine without GPUs has a source, too", async () => {
  expect(NO_GPUS.current()).toEqual({ driver: null, gpus: [], trouble: null });
  expect(NO_GPUS.readings()).toEqual([]);
  NO_GPUS.onChange(() => {})();
  await NO_GPUS.look();
  await NO_GPUS.close();
});
