import type { LimitName } from "../../../host/limits/limits.ts";
import type { WallLevel } from "../../../host/walls/walls.ts";

/** What stops an attack: the service itself, a level with all above it, or a rule that some hosts cannot enforce. */
export type Wall = "service" | WallLevel | LimitName | "network";

/** Where an attack is tried from. */
type Origin =
  /** A process that the hostile app has forked, so that the attack leaves nothing for the next. */
  | "fork"
  /** The hostile replica itself, which the attack may end. */
  | "replica"
  /** A command of a build. */
  | "build"
  /** A process that an app has forked which has `network = false`, or `network = "egress"`. */
  | "offline"
  | "egress"
  /** The same in an app that has `unix_sockets = true`. */
  | "sockets"
  /** The same in an app that is a server with its port in its code. */
  | "server"
  /** The same in an app that was granted one of several GPUs. */
  | "gpu"
  /** The replica of an app with small limits, which the attack may end. */
  | "bomber";

/**
 * One way out, in Python. It has succeeded if it ends without an `OSError`. Names that it does not define are facts
 * of the stage, or belong to the hostile app. It does no harm where nothing stops it.
 */
export type Attack = Special & {
  readonly name: string;
  readonly stoppedBy: Wall;
  readonly code: string;
  readonly from: Origin;
};

/** The exceptional traits of an attack. */
type Special = {
  /** It succeeds one level below, on every host and for every user: so it is a real attack. */
  readonly isProven?: boolean;
  /** `fork` if absent. */
  readonly from?: Origin;
  /** It takes so much of shared resources that it is not tried on a service that others use. */
  readonly isBomb?: boolean;
  /** A fact without which it makes no sense. */
  readonly needs?: string;
  /** Second step: the service is asked this often for a file that was planted, and must not give the master key. */
  readonly thenAsksFor?: { readonly path: string; readonly times: number };
  /** Second step: a file that the host must not have now, below the folder that a fact names. */
  readonly thenFinds?: { readonly folder: string; readonly name: string };
  /** Second step: another app must still reach a server of this machine that it has not used before. */
  readonly thenDials?: boolean;
};

/** An attack that something else may stop as well, such as the rights of the user who runs the service. */
export function attack(stoppedBy: Wall, name: string, code: string, special: Special = {}): Attack {
  return { from: "fork", ...special, stoppedBy, name, code };
}

/** Code of attacks by their names. */
export type Codes = Readonly<Record<string, string>>;

/** Several attacks with the same traits. */
export function attacks(stoppedBy: Wall, codes: Codes, special: Special = {}): Attack[] {
  return Object.entries(codes).map(([name, code]) => attack(stoppedBy, name, code, special));
}

/** Attacks that succeed wherever their wall is missing. */
export function proven(stoppedBy: Wall, codes: Codes): Attack[] {
  return attacks(stoppedBy, codes, { isProven: true });
}
