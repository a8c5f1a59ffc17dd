import type { HostileTickets, Plan, Step } from "./cases.ts";
import { FUNCTIONS, noise, patience, preface, sends } from "./cases.ts";
import { inPieces, mutateJson } from "./mutate.ts";
import type { Random } from "./random.ts";

/** How a template begins, and whether it does as it is told after that. */
export type TemplatePlan = Plan & {
  /** It says that it does not fork, and becomes a replica. */
  readonly becomesReplica: boolean;
  readonly obeys: boolean;
  /** When it gives up; null for never. */
  readonly patienceMs: number | null;
};

const READY = { ready: { pid: 4711, python: "3.11.7", functions: FUNCTIONS, forks: true, reason: null } };
const ORDINARY = { ready: { ...READY.ready, forks: false, reason: "the import opened a socket" } };
const FAILED = { failed: { message: "ImportError: x", traceback: "Traceback" } };
const STRANGE = { exited: { id: "r-nobody", code: 0 } };

/** What a template does first. */
export function templateOpening(random: Random, { template = "" }: HostileTickets): TemplatePlan {
  const kinds = ["stdout", "stderr", "template"] as const;
  const connects = kinds.map((kind) => ({ act: "connect", kind, preface: preface(kind, template) }) as const);
  const says = (...lines: (object | Buffer)[]): Step[] => [
    ...connects,
    ...lines.flatMap((line) => {
      const bytes = Buffer.isBuffer(line) ? line : Buffer.from(JSON.stringify(line));
      return inPieces(random, Buffer.concat([bytes, Buffer.from("\n")])).map((piece): Step => ({
        act: "send",
        on: "template",
        bytes: piece,
      }));
    }),
  ];
  const plan = (steps: Step[], more: Partial<TemplatePlan> = {}): TemplatePlan => ({
    steps,
    isHostile: true,
    becomesReplica: false,
    obeys: true,
    patienceMs: patience(random),
    ...more,
  });
  if (random.chance(0.85))
    return plan([...says(READY), ...noise(random)], { isHostile: false, patienceMs: null });
  return random.weigh<() => TemplatePlan>([
    [3, () => plan(says(ORDINARY), { becomesReplica: true, patienceMs: null })],
    [1, () => plan(says(READY), { obeys: false })],
    [1, () => plan([...says(FAILED), { act: "exit" }])],
    [1, () => plan(says(FAILED, READY))],
    [1, () => plan(says(READY, READY))],
    [1, () => plan(says(ORDINARY, READY), { becomesReplica: true })],
    [1, () => plan(says(READY, STRANGE))],
    [1, () => plan(says(STRANGE))],
    [4, () => plan(says(mutateJson(random, random.pick([READY, FAILED, STRANGE]))))],
    [1, () => plan(says(random.bytes(random.below(200))))],
    [1, () => plan(says(Buffer.alloc(2 ** 21 + 10, "x")))],
    [1, () => plan([...says(READY), { act: "close", on: "template" }])],
    [1, () => plan([...connects, ...sends(random, "template", [random.bytes(3)]), { act: "exit" }])],
  ])();
}
