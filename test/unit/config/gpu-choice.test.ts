import { expect } from "vitest";
import { gpuChoice } from "../../../src/config/gpu-choice.ts";
import { verifies } from "../../verifies.ts";

const UUID = "GPU-8f6d1c2e-0001-4bcd-9000-0123456789ab";
const PART = "MIG-8f6d1c2e-0001-4bcd-9000-0123456789ab";

verifies("gpus.choice", "MILLRACE_GPUS is all, none, indices or UUIDs, or fake GPUs", () => {
  expect(gpuChoice.read("all")).toEqual({ kind: "all" });
  expect(gpuChoice.read("none")).toEqual({ kind: "none" });
  expect(gpuChoice.read("0, 3")).toEqual({ kind: "some", names: ["0", "3"] });
  expect(gpuChoice.read(`${UUID},${PART}`)).toEqual({ kind: "some", names: [UUID, PART] });
  // As a TOML file may have it.
  expect(gpuChoice.read([0, UUID])).toEqual({ kind: "some", names: ["0", UUID] });
  expect(gpuChoice.read(2)).toEqual({ kind: "some", names: ["2"] });
  const h100 = { count: 2, model: "H100", memoryGb: 80 };
  expect(gpuChoice.read("fake:2xH100:80")).toEqual({ kind: "fake", gpus: [h100] });
  expect(gpuChoice.read("fake:1xA100:40,2xT4:16")).toEqual({
    kind: "fake",
    gpus: [
      { count: 1, model: "A100", memoryGb: 40 },
      { count: 2, model: "T4", memoryGb: 16 },
    ],
  });
});

verifies("gpus.choice", "anything else is refused", () => {
  for (const raw of [
    "",
    "every",
    "ALL",
    "all,0",
    "-1",
    "1.5",
    "0,,1",
    "GPU-",
    "GPU-../../etc",
    "fake:",
    "fake:0xH100:80",
    "fake:65xH100:80",
    "fake:40xH100:80,40xH100:80",
    "fake:2xH100",
    "fake:2xH100:0",
    "fake:2xH 100:80",
    "0,fake:2xH100:80",
    Array.from({ length: 65 }, (_, index) => index),
    [],
    [[0]],
    null,
    true,
    {},
  ])
    expect([raw, gpuChoice.read(raw)]).toEqual([raw, undefined]);
});
