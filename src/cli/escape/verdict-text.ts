import { paint, printableName } from "../output/paint.ts";
import { table } from "../output/table.ts";
import type { AttackRow, Verdict } from "./verdict.ts";

/** What every attack came to, for people: a table, and a summary below it. */
export function verdictText(verdict: Verdict): string {
  const { claimed_rung: claimed, real_rung: real, tried, stopped, failures, seconds } = verdict;
  const rows = verdict.attacks.map((row) => [row.kind, row.attack, outcomeOf(row), row.wall]);
  const isSame = claimed === real;
  return [
    table(["KIND", "ATTACK", "WHAT STOPPED IT", "RUNG"], rows),
    `tried         ${tried} in ${seconds} s`,
    `stopped       ${stopped}`,
    `claimed rung  ${claimed}`,
    `real rung     ${paint(isSame ? "green" : "red", real)}`,
    `failures      ${paint(failures.length === 0 ? "green" : "red", String(failures.length))}`,
    ...failures.map((name) => `  - ${printableName(name)}`),
    "",
  ].join("\n");
}

function outcomeOf({ result, is_stopped, is_promised }: AttackRow): string {
  // Part of it was said by an app.
  const said = printableName(result);
  if (is_stopped) return said;
  return is_promised ? paint("red", `NOT STOPPED: ${said}`) : paint("dim", "not stopped: not promised here");
}
