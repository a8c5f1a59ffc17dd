import type { LimitName } from "../../host/limits/limits.ts";
import type { Rung } from "../../host/walls/walls.ts";

/**
 * What stops an attack: the service itself, on every host and every rung; a rung, with all above it; or a rule that a
 * host may not have the means for, by the name that the service has for it.
 */
export type Wall = "service" | Rung | LimitName | "network";

/** Where an attack is tried from. */
type Origin =
  /** A process that the hostile app has forked, so that the attack leaves nothing for the next. */
  | "fork"
  /** The hostile replica itself, which may end of it. */
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
  /** The replica of an app with small limits, which may end of it. */
  | "bomber";

/**
 * One way out, in Python. It has succeeded if it ends without an `OSError`. Names that it does not define are facts
 * of the scene, or belong to the hostile app. It does no harm where nothing stops it.
 */
export type Attack = {
  readonly name: string;
  readonly stoppedBy: Wall;
  readonly code: string;
  /** It succeeds one rung below, on every host and for every user: so it is a real attack. */
  readonly isProven: boolean;
  readonly from: Origin;
  /** It takes so much of what all share that it is not tried on a service that others use. */
  readonly isBomb: boolean;
  /** A fact without which it makes no sense. */
  readonly needs: string | null;
  /** The second half: so often the service is asked for a file that was planted, and must not give the master key. */
  readonly thenAsksFor: { readonly path: string; readonly times: number } | null;
  /** The second half: a file that the host must not have now, below the folder that a fact names. */
  readonly thenFinds: { readonly folder: string; readonly name: string } | null;
  /** The second half: another app must still reach a server of this machine that it has not used before. */
  readonly thenDials: boolean;
};

const USUAL = {
  isProven: false,
  from: "fork",
  isBomb: false,
  needs: null,
  thenAsksFor: null,
  thenFinds: null,
  thenDials: false,
} as const;

/** An attack that something else may stop as well, such as the rights of the user who runs the service. */
export function attack(stoppedBy: Wall, name: string, code: string): Attack {
  return { ...USUAL, stoppedBy, name, code };
}

/** An attack that succeeds wherever its wall is not there. */
export function proven(stoppedBy: Wall, name: string, code: string): Attack {
  return { ...attack(stoppedBy, name, code), isProven: true };
}

/** A proven one that makes a file: the app may have a folder of its own in that place. */
export function planting(stoppedBy: Wall, name: string, folder: string, file: string): Attack {
  const code = `os.close(os.open(${folder} + "/${file}", os.O_CREAT | os.O_WRONLY, 0o600))`;
  return { ...proven(stoppedBy, name, code), thenFinds: { folder, name: file } };
}
