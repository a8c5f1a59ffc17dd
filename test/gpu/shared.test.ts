import { expect } from "vitest";
import { verifies } from "../verifies.ts";
import { type Answer, type TestService, testService } from "../support/service.ts";
import { firstGpu, GpuWatch, hardware, requireGpu } from "./gpu-machine.ts";
import { GB, heldBy, holder, hostPid } from "./holder.ts";

/** How many calls are made in turn without a hold; with the default hold there are ten at most, of 10 s each. */
const SWAPS = Number(process.env["MILLRACE_GPU_SWAPS"] ?? 6);
const HELD_SWAPS = Math.min(10, Math.max(2, Math.floor(SWAPS / 3)));
/** Of the GPU's memory, for each of two apps. */
const SHARE = 0.6;
/** Of its share an app leaves that for CUDA's context. */
const CONTEXT_BYTES = 1_500_000_000;
/** A change from one app to the other, phase by phase in milliseconds; null where it was not seen. */
type Phases = Readonly<Record<string, number | null>>;

/** What `Server-Timing` says. */
function timingOf({ headers }: Answer): Phases {
  const phases = (headers.get("server-timing") ?? "").matchAll(/(\w+);dur=([\d.]+)/g);
  return Object.fromEntries(Array.from(phases, ([, name, ms]) => [`Server-Timing ${name}`, Number(ms)]));
}

/** Calls two apps in turn, each of which needs the other to be gone. */
async function takeTurns(service: TestService, watch: GpuWatch, swaps: number): Promise<Phases[]> {
  // Not counted: both import PyTorch first, into templates that stay.
  await service.call("one");
  let before = heldBy(await service.call("two"));
  const bytes = before.bytes;
  const seen: Phases[] = [];
  for (let swap = 1; swap <= swaps; swap++) {
    const evicted = hostPid(before);
    watch.follow(evicted);
    const sentAt = Date.now() / 1000;
    const answer = await service.call(swap % 2 === 1 ? "one" : "two");
    const answeredAt = Date.now() / 1000;
    const held = heldBy(answer);
    expect([held.bytes, held.sum]).toEqual([bytes, 1000]);
    expect(held.replica).not.toBe(before.replica);
    const goneAt = await watch.endOf(evicted);
    const freeAt = watch.firstBelow(watch.baseBytes + bytes / 4, sentAt);
    const ms = (from: number | null, to: number | null) =>
      from === null || to === null ? null : (to - from) * 1000;
    seen.push({
      "call to process gone": ms(sentAt, goneAt),
      "process gone to memory free": ms(goneAt, freeAt),
      "memory free to setup()": ms(freeAt, held.began),
      "setup()": ms(held.began, held.ended),
      "setup() to answer": ms(held.ended, answeredAt),
      "call to answer": ms(sentAt, answeredAt),
      ...timingOf(answer),
    });
    before = held;
  }
  return seen;
}

/** For people: the middle, the least and the most of each phase. */
function tell(title: string, swaps: readonly Phases[]): void {
  const names = [...new Set(swaps.flatMap((phases) => Object.keys(phases)))];
  const rows = names.map((name) => {
    const values = swaps.flatMap((phases) => phases[name] ?? []).toSorted((a, b) => a - b);
    const at = (share: number) => values[Math.round((values.length - 1) * share)]?.toFixed(1) ?? "–";
    return `${name.padEnd(30)}${[0.5, 0, 1].map((share) => at(share).padStart(10)).join("")}`;
  });
  const head = `${"ms".padEnd(30)}${["median", "least", "most"].map((word) => word.padStart(10)).join("")}`;
  process.stderr.write(`\n${title}: ${swaps.length} swaps\n${[head, ...rows].join("\n")}\n`);
}

/** Two apps that each need more than half of the GPU. */
function pair(totalBytes: number): Record<string, { main: string; toml: string }> {
  const share = Math.floor((SHARE * totalBytes) / GB);
  const bytes = `int(os.environ["MILLRACE_GPU_MEMORY"]) - ${CONTEXT_BYTES}`;
  const app = { main: holder(bytes), toml: hardware(share) };
  return { one: app, two: app };
}

verifies(
  "gpu.swaps",
  "apps of 60 % of the GPU are called in turn without a hold: no call fails, no memory is lacking",
  async (context) => {
    const python = requireGpu(context);
    const { uuid, memoryBytes, flags } = firstGpu();
    const watch = await GpuWatch.begin(python, uuid);
    const settings = { isolation: "auto", python, gpuHold: "0s", ...flags };
    const service = await testService(pair(memoryBytes), settings);
    tell("no hold", await takeTurns(service, watch, SWAPS));
    // Never both at once.
    expect(watch.mostUsedBytes).toBeLessThan(watch.baseBytes + SHARE * memoryBytes + 5 * GB);
  },
);

verifies("gpu.swaps", "the same with the default hold", async (context) => {
  const python = requireGpu(context);
  const { uuid, memoryBytes, flags } = firstGpu();
  const watch = await GpuWatch.begin(python, uuid);
  const service = await testService(pair(memoryBytes), { isolation: "auto", python, ...flags });
  tell("the default hold", await takeTurns(service, watch, HELD_SWAPS));
});

verifies("gpu.beside", "four replicas of gpu_memory = 20 hold 15 GB each at once", async (context) => {
  const python = requireGpu(context);
  const { flags } = firstGpu();
  const scaling = "[scaling]\nmin_replicas = 4\nmax_replicas = 4\n";
  const four = { main: holder("15 * 10**9"), toml: hardware(20, scaling) };
  const service = await testService({ four }, { isolation: "auto", python, ...flags });
  const calls = [1, 2, 3, 4].map(() => service.call("four", { count: 4 }, { functionName: "meet" }));
  const held = (await Promise.all(calls)).map(heldBy);
  expect(held.map(({ bytes }) => bytes)).toEqual(Array(4).fill(15 * GB));
  expect(new Set(held.map(({ replica }) => replica)).size).toBe(4);
});
