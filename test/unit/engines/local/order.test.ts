import { expect } from "vitest";
import { buildWorkload } from "../../../../src/engines/agent/build-seat.ts";
import { orderOf } from "../../../../src/engines/local/spawn.ts";
import type { BatchingConfig } from "../../../../src/model/app-config.ts";
import { verifies } from "../../../verifies.ts";

const WORKLOAD = buildWorkload({
  buildId: "build",
  projectId: "p-one",
  bundle: "0123",
  image: null,
  memoryBytes: null,
  python: null,
  containerRuntime: null,
});
const FOLDERS = { bundle: "/app", environment: null, storage: "/storage" };

const EMBED: BatchingConfig = {
  maxSize: 32,
  maxWaitSeconds: 1,
  key: "model",
  size: "text",
  targetLatencySeconds: 0.5,
  onError: "fail",
  stepper: null,
};

verifies(
  "config.batching.order",
  "an order names the batched functions, and says nothing if there are none",
  () => {
    const read = (batching: typeof WORKLOAD.batching) =>
      JSON.parse(orderOf({ ...WORKLOAD, batching }, FOLDERS, "", { replica: "" })) as { batching?: unknown };
    expect(read({ embed: EMBED, generate: { ...EMBED, stepper: "Decoder" } }).batching).toEqual({
      embed: { key: "model", size: "text", on_error: "fail", stepper: null },
      generate: { key: "model", size: "text", on_error: "fail", stepper: "Decoder" },
    });
    expect(read(undefined)).not.toHaveProperty("batching");
  },
);
