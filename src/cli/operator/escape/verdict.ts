import { WALL_LEVELS } from "../../../host/walls/walls.ts";
import type { Level } from "../../../shapes/installation.ts";
import { paint, printableName, tableOf } from "../../output.ts";
import type { Wall } from "./attack.ts";
import type { Tried } from "./try-attacks.ts";

/** The result for a service's walls, as `--json` prints it. */
export type Verdict = ReturnType<typeof judge>;

/** Compares the results of attacks with the service's claims: its level, and the names of rules that are in force. */
export function judge(claimed: Level, enforced: ReadonlySet<string>, all: readonly Tried[], seconds: number) {
  const attacks = all.map(({ kind, attack, result, isStopped }) => ({
    kind,
    attack: attack.name,
    wall: attack.stoppedBy,
    result,
    is_stopped: isStopped,
    is_promised: isPromised(attack.stoppedBy, claimed, enforced),
  }));
  return {
    claimed_level: claimed,
    /** The highest level of which everything holds, with all below it. */
    real_level: realLevel(all),
    tried: attacks.length,
    stopped: attacks.filter(({ is_stopped }) => is_stopped).length,
    /** Attacks that the service claims to stop and did not. */
    failures: attacks
      .filter(({ is_stopped, is_promised }) => is_promised && !is_stopped)
      .map(({ attack }) => attack),
    seconds: Math.round(seconds * 10) / 10,
    attacks,
  };
}

/** The claimed level is the real one, and every promise holds. */
export function isSound({ claimed_level, real_level, failures }: Verdict): boolean {
  return claimed_level === real_level && failures.length === 0;
}

function isPromised(wall: Wall, claimed: Level, enforced: ReadonlySet<string>): boolean {
  if (wall === "service" || enforced.has(wall)) return true;
  const levels: readonly string[] = WALL_LEVELS;
  return levels.includes(wall) && levels.indexOf(wall) <= levels.indexOf(claimed);
}

function realLevel(all: readonly Tried[]): Level {
  let real: Level = "none";
  for (const level of WALL_LEVELS) {
    if (all.some(({ attack, isStopped }) => attack.stoppedBy === level && !isStopped)) return real;
    real = level;
  }
  return real;
}

/** The result of every attack, for people: a table, and a summary below it. */
export function verdictText(verdict: Verdict): string {
  const { claimed_level: claimed, real_level: real, tried, stopped, failures, seconds } = verdict;
  const isSame = claimed === real;
  return [
    tableOf(verdict.attacks, {
      KIND: ({ kind }) => kind,
      ATTACK: ({ attack }) => attack,
      "WHAT STOPPED IT": outcomeOf,
      LEVEL: ({ wall }) => wall,
    }),
    `tried         ${tried} in ${seconds} s`,
    `stopped       ${stopped}`,
    `claimed level ${claimed}`,
    `real level    ${paint(isSame ? "green" : "red", real)}`,
    `failures      ${paint(failures.length === 0 ? "green" : "red", String(failures.length))}`,
    ...failures.map((name) => `  - ${printableName(name)}`),
    "",
  ].join("\n");
}

function outcomeOf({ result, is_stopped, is_promised }: Verdict["attacks"][number]): string {
  // Part of it was said by an app.
  const said = printableName(result);
  if (is_stopped) return said;
  return is_promised ? paint("red", `NOT STOPPED: ${said}`) : paint("dim", "not stopped: not promised here");
}
