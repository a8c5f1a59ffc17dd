import path from "node:path";
import { WALL_LEVELS } from "../../../host/walls/walls.ts";
import type { Attack } from "./attack.ts";
import { CODE, FILES, STORAGE } from "./attacks/files.ts";
import { GPUS } from "./attacks/gpus.ts";
import { LIMITS } from "./attacks/limits.ts";
import { NETWORK, SOCKETS, WIRE } from "./attacks/network.ts";
import { KERNEL, PROCESSES, USERS } from "./attacks/processes.ts";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { text } from "node:stream/consumers";
import { OFFERED_FILE } from "../../../shapes/projects.ts";
import { send } from "../../client/http.ts";
import type { Part, Stage } from "./stage.ts";

/** Attacks that a build could make if it lived behind weaker walls than a replica. */
const NAMES: ReadonlySet<string> = new Set([
  "read the master key",
  "read the owner's token",
  "make a file in the data directory",
  "read another project's file",
  "make a file in another project",
  "read another app's code",
  "change the harness",
  "list the service's sockets",
  "make a file for others of the host",
  "read the service's environment",
  "read a victim's environment",
  "trace a victim",
  "signal the service",
  "signal another app's replica",
  "see processes of others",
  "ask the control socket for the owner's token",
  "connect to a docker.sock",
  "make a user namespace",
  "load a program into the kernel",
  "keep a capability",
]);

/** The same attacks from a command of a build, which runs code that an app brings as well. */
const BUILDS: readonly Attack[] = [...FILES, ...PROCESSES, ...SOCKETS, ...KERNEL]
  .filter(({ name, stoppedBy }) => NAMES.has(name) && (WALL_LEVELS as readonly string[]).includes(stoppedBy))
  .map((attack) => ({ ...attack, name: `in a build: ${attack.name}`, from: "build" }));

/** Every known way out, by kind. */
export const ATTACKS: Readonly<Record<string, readonly Attack[]>> = {
  files: FILES,
  storage: STORAGE,
  code: CODE,
  processes: PROCESSES,
  users: USERS,
  sockets: SOCKETS,
  kernel: KERNEL,
  gpus: GPUS,
  network: NETWORK,
  wire: WIRE,
  limits: LIMITS,
  builds: BUILDS,
};

/** The result of an attack. */
export type Tried = {
  readonly kind: string;
  readonly attack: Attack;
  readonly isStopped: boolean;
  /** What stopped it, or how far it got. */
  readonly result: string;
};
type Ended = Omit<Tried, "kind">;

/** Attacks of one kind in a single call. */
const AT_ONCE = 40;
/** A service that takes longer for a file is stuck on it. */
const ANSWER_MS = 60_000;

/** Tries every attack that the stage is set for, one after the other, and yields each result at once. */
export async function* tryAttacks(
  stage: Stage,
  table: Readonly<Record<string, readonly Attack[]>> = ATTACKS,
): AsyncGenerator<Tried> {
  for (const [kind, attacks] of Object.entries(table)) {
    const fit = attacks.filter(
      ({ isBomb, needs }) =>
        (stage.target.isScratch || !isBomb) && (needs === undefined || Object.hasOwn(stage.facts, needs)),
    );
    for await (const ended of tryKind(stage, fit)) yield { kind, ...ended };
  }
}

async function* tryKind(stage: Stage, attacks: readonly Attack[]): AsyncGenerator<Ended> {
  const isTogether = ({ from, thenAsksFor }: Attack): boolean =>
    from !== "replica" && from !== "bomber" && from !== "build" && !thenAsksFor;
  for (const part of ["hostile", "offline", "egress", "sockets", "server", "gpu"] as const) {
    const own = attacks.filter((attack) => isTogether(attack) && partOf(attack) === part);
    for (let at = 0; at < own.length; at += AT_ONCE)
      yield* await tryTogether(stage, part, own.slice(at, at + AT_ONCE));
  }
  const built = attacks.filter(({ from }) => from === "build");
  if (built.length > 0) yield* await tryInBuild(stage, built);
  for (const attack of attacks) {
    if (attack.thenAsksFor) yield await tryPlanted(stage, attack);
    else if (attack.from === "replica" || attack.from === "bomber") yield await tryInReplica(stage, attack);
  }
}

function partOf({ from }: Attack): Part {
  return from === "fork" || from === "replica" || from === "build" ? "hostile" : from;
}

async function tryTogether(stage: Stage, part: Part, attacks: readonly Attack[]): Promise<Ended[]> {
  const results = await runEach(stage, part, attacks);
  return attacks.map((attack, index) => withFile(stage, attack, results[index] ?? "broken: no answer"));
}

async function runEach(stage: Stage, part: Part, attacks: readonly Attack[]): Promise<string[]> {
  const codes = attacks.map(({ code }) => code);
  const { status, result, code } = await stage.call(part, "attack_each", { codes, facts: stage.facts });
  // Each has a process of its own, so the call can only have failed for all of them.
  return status === 200 ? (result as string[]) : attacks.map(() => `broken: ${status} ${code}`);
}

async function tryInBuild(stage: Stage, attacks: readonly Attack[]): Promise<Ended[]> {
  const results = await stage.build(attacks.map(({ code }) => code));
  return attacks.map((attack, at) => withFile(stage, attack, results[at] ?? "broken: no line in the log"));
}

/** Looks on the host for the file that an attack claims to have made there, and removes it. */
function withFile({ facts }: Stage, attack: Attack, result: string): Ended {
  if (!attack.thenFinds || result !== "escaped") return judged(attack, result);
  const file = path.join(String(facts[attack.thenFinds.folder]), attack.thenFinds.name);
  if (!existsSync(file)) return { attack, isStopped: true, result: "a folder of its own in that place" };
  rmSync(file, { force: true });
  return judged(attack, result);
}

/** Tries an attack that may kill its replica: the service and the other apps must continue. */
async function tryInReplica(stage: Stage, attack: Attack): Promise<Ended> {
  const asked = { code: attack.code, facts: stage.facts };
  const { status, result, code } = await stage.call(partOf(attack), "attack", asked);
  if (attack.thenDials) {
    const why = await stage.whyNoConnection();
    // It hides no longer than this.
    await stage.call(partOf(attack), "attack", { code: "os._exit(3)", facts: {} });
    if (why !== null) return { attack, isStopped: false, result: `a neighbour cannot connect: ${why}` };
  }
  for (const part of ["neighbour", partOf(attack)] as const) {
    const fault = await stage.faultOf(part);
    if (fault !== null) return { attack, isStopped: false, result: `${part} gives wrong answers: ${fault}` };
  }
  if (attack.thenDials) return { attack, isStopped: true, result: "a neighbour connects as before" };
  if (status === 200) return judged(attack, String(result));
  return { attack, isStopped: true, result: `the service (${status} ${code})` };
}

/** An attack in two steps: an app plants something, and the service is asked for it. */
async function tryPlanted(stage: Stage, attack: Attack): Promise<Ended> {
  const [result = ""] = await runEach(stage, "hostile", [attack]);
  if (result !== "escaped") return judged(attack, result);
  const { path: planted, times } = attack.thenAsksFor ?? { path: "", times: 0 };
  const { dataDir, masterKey } = stage.target;
  const secrets = [masterKey, path.join(dataDir, "owner-token")].map((file) => readFileSync(file, "latin1"));
  try {
    for (let time = 0; time < times; time++) {
      const said = await readStored(stage, `${stage.ownFolder}/${planted}`);
      if (said === null) return { attack, isStopped: false, result: "the service does not answer" };
      if (secrets.some((secret) => said.includes(secret)))
        return { attack, isStopped: false, result: "escaped" };
    }
    return { attack, isStopped: true, result: "the service did not read it" };
  } finally {
    // The process that keeps changing it takes a whole processor.
    const code = `open(own + "/${planted.split("/")[0]}-over", "w").close()`;
    if (times > 1) await stage.call("hostile", "attack", { code, facts: stage.facts });
  }
}

/** What the service gives for a file of the project's storage: its content, or why not; null when it hangs. */
async function readStored({ target: { api } }: Stage, stored: string): Promise<string | null> {
  const signal = AbortSignal.any([api.signal, AbortSignal.timeout(ANSWER_MS)]);
  try {
    const { url } = await api.get(OFFERED_FILE, await api.path("volumes/default/download"), {
      query: { file_path: stored },
    });
    const answer = await send(url, { signal });
    return await text(answer.body.setEncoding("latin1"));
  } catch (error) {
    api.signal.throwIfAborted();
    return signal.aborted ? null : (error as Error).message;
  }
}

function judged(attack: Attack, result: string): Ended {
  return { attack, isStopped: result !== "escaped" && !result.startsWith("broken"), result };
}
