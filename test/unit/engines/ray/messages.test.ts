import { expect } from "vitest";
import { acceleratorsOf } from "../../../../src/engines/ray/place.ts";
import { needsOf, supervisorReader } from "../../../../src/engines/ray/supervisor-messages.ts";
import { packJob } from "../../../../src/engines/ray/supervisor-job.ts";
import { verifies } from "../../../verifies.ts";
import { BadFrame } from "../../../../src/engines/protocol.ts";

const HELLO = { hello: { ray: "2.60.0", python: "3.11.7" } };
const SEAT = "s-abcdefghijkl";

function reads(...messages: unknown[]): unknown {
  const read = supervisorReader();
  return messages.map((message) => read(Buffer.from(JSON.stringify(message)))).at(-1);
}

verifies("ray.messages", "each message is read in its turn", () => {
  expect(reads({ beat: {} }, HELLO, { begun: { seat: SEAT } })).toEqual({ begun: { seat: SEAT } });
  const ended = { seat: SEAT, code: null, why: "its Ray node died", is_out_of_memory: false };
  expect(reads(HELLO, { ended })).toEqual({
    ended: { seat: SEAT, code: null, why: "its Ray node died", isOutOfMemory: false },
  });
  const odd: unknown[][] = [
    [{ begun: { seat: SEAT } }],
    [HELLO, HELLO],
    [HELLO, { begun: { seat: "../x" } }],
    [HELLO, { begun: { seat: SEAT, more: 1 } }],
    [HELLO, { begun: { seat: SEAT }, beat: {} }],
    [HELLO, { waiting: { seat: SEAT, why: "x".repeat(501) } }],
    [HELLO, { ended: { ...ended, code: 300 } }],
    [HELLO, { begin: { seat: SEAT } }],
    [HELLO, null],
  ];
  for (const messages of odd) expect(() => reads(...messages)).toThrow(BadFrame);
  expect(() => supervisorReader()(Buffer.from("{"))).toThrow(BadFrame);
});

verifies("ray.package", "what goes to Ray is packed the same way each time", async () => {
  const [one, two] = await Promise.all([packJob(), packJob()]);
  expect(one.name).toMatch(/^_ray_pkg_[0-9a-f]{32}\.zip$/);
  expect(two.name).toBe(one.name);
  expect(two.archive.equals(one.archive)).toBe(true);
  const names = [...one.archive.toString("latin1").matchAll(/millrace_\w+\/\w+\.\w{2}/g)].map(
    ([name]) => name,
  );
  expect(names).toEqual(expect.arrayContaining(["millrace_ray/seat.py", "millrace_agent/agent.py"]));
  expect(names.every((name) => name.endsWith(".py"))).toBe(true);
});

verifies("ray.scale", "an actor reserves what its app names, and little where that names nothing", () => {
  const limits = { memoryBytes: 2e9, cpus: 3, cpuShare: 3 };
  const gpus = { models: ["A100"], count: 2, memoryBytes: null };
  const settings = { replicasPerSeat: 1, rayResources: { apps: 1 } };
  expect(needsOf({ limits, gpus }, settings)).toEqual({ CPU: 3, memory: 2e9, GPU: 2, apps: 1 });
  // The GPUs are of a model that the supervisor chooses.
  expect(acceleratorsOf({ ...gpus, models: ["HOPPER_H200", "My GPU", "A100_80GB", "nvidia l4"] })).toEqual([
    "H200",
    "A100",
    "L4",
  ]);
  expect(acceleratorsOf({ ...gpus, models: ["AMPERE_A10"] })).toEqual(["A10G", "A10"]);
  for (const models of [["My GPU"], ["H100", "any"], ["H100-1g.10gb"]])
    expect(acceleratorsOf({ ...gpus, models })).toEqual([]);
  const unnamed = { memoryBytes: null, cpus: null, cpuShare: 2 };
  const shared = { replicasPerSeat: 4, rayResources: {} };
  expect(needsOf({ limits: unnamed, gpus: null }, shared)).toEqual({ CPU: 2 });
});
