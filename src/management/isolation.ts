import { LIMITS, describeEnforced } from "../host/limits/limits.ts";
import type { Enforcement } from "../host/limits/limits.ts";
import { networkReport } from "../host/walls/network.ts";
import { readEscapeReport } from "../host/walls/escape-report.ts";
import type { WallLevel, StandingWalls } from "../host/walls/walls.ts";
import { ISOLATION } from "../shapes/isolation.ts";
import type { Isolation, IsolationRule } from "../shapes/isolation.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";

export type IsolationParts = {
  /** What apps live behind; null for nothing. */
  readonly level: WallLevel | null;
  /** What apps are held to, and by what. */
  readonly enforcement: Enforcement;
  /** What of an app's `network` is in force. */
  readonly network: Pick<ReturnType<typeof networkReport>, "true">;
  readonly dataDir: string;
  /** The weakest walls that a seat elsewhere has raised around an app; null for none. */
  readonly seatWalls: () => StandingWalls | null;
};

/** What keeps apps from the rest of the machine. For the operator: a wall that does not hold is nobody else's affair. */
export function isolationOperations(parts: IsolationParts): AnyOperation[] {
  return [
    operation({
      method: "GET",
      path: "/v2/isolation",
      id: "getIsolation",
      tag: "Installation",
      summary: "Show how apps are isolated, and the last report of doctor --escape",
      access: "operator",
      response: ISOLATION,
      handle: (): Isolation => ({
        level: parts.seatWalls()?.level ?? parts.level ?? "none",
        rules: rulesOf(parts),
        lastEscape: readEscapeReport(parts.dataDir),
      }),
    }),
  ];
}

function rulesOf({ enforcement, network: own, seatWalls }: IsolationParts): IsolationRule[] {
  const elsewhere = seatWalls();
  const network = elsewhere ? networkReport({ hasWalls: true, gap: elsewhere.gap }) : own;
  const limits = LIMITS.map((name) => {
    const how = enforcement[name];
    return { name, isEnforced: "by" in how, detail: describeEnforced(how) };
  });
  const isJudged = network.true === "enforced";
  const detail = isJudged
    ? "the management API, metadata and other apps' servers are out of reach"
    : network.true;
  return [...limits, { name: "network", isEnforced: isJudged, detail }];
}
