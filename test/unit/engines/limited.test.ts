import { expect } from "vitest";
import { judge } from "../../../src/engines/local/limited.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "walls.limits.disk",
  "a replica that is ended for its files says so, whatever became of a child before",
  () => {
    const group = { add: () => Promise.resolve(), ranOut: () => true, remove: () => {} };
    const limits = { memoryBytes: 1e9, cpus: null, cpuShare: 1 };
    const exit = { detail: "killed by SIGKILL", initFailure: null };
    const why = "its temporary files took too much";
    expect(judge(exit, { group, limits, verdict: { why } })).toEqual({ ...exit, detail: why });
    expect(judge(exit, { group, limits, verdict: { why: null } })).toEqual({
      ...exit,
      detail: "it used more than its memory = 1 GB",
      isOutOfMemory: true,
    });
  },
);
