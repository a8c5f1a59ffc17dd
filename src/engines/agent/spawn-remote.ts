import type { Clock } from "../../kit/clock.ts";
import type { Exit, Workload } from "../engine.ts";
import { deferred, orderOf, over } from "../local/spawn.ts";
import type { Spawn } from "../local/spawn.ts";
import { RemoteSeat, refused, whatIsMissing } from "./remote-seat.ts";
import type { RemoteSeatEvents } from "./remote-seat.ts";
import type { ClaimedSeat, SeatWish } from "./seat-records.ts";
import type { RemoteParts, SeatStart } from "./session.ts";

/** Counted up when an agent of the release before cannot go on for a service of this one. */
const GENERATION = 1;
const STOPPED: Exit = { detail: "stopped before it started", initFailure: null };

/** Starts templates and replicas in seats elsewhere: an agent there fetches the app, starts it and passes on what it says. */
export function spawnRemote(parts: RemoteParts): Spawn {
  return (start, clock, events) => {
    const failure = whatIsMissing(start.workload);
    if (failure !== null) return over(refused(failure));
    const { workload, folders, tickets } = start;
    const order: unknown = JSON.parse(orderOf(workload, { ...folders, bundle: "" }, "", tickets));
    return seatFor(parts, { workload, order, server: null }, clock, events).process;
  };
}

/** A seat that is there, or is looked for. */
export type FoundSeat = Pick<RemoteSeat, "process" | "say" | "place">;

/** A seat for that: one which a service that is gone has left and that runs exactly this, else a new one. */
export function seatFor(
  parts: RemoteParts,
  start: SeatStart,
  clock: Clock,
  events: RemoteSeatEvents,
): FoundSeat {
  const wish = wishOf(parts, start.workload);
  const open = (claimed: ClaimedSeat | null): RemoteSeat =>
    new RemoteSeat(parts, start, { mark: wish?.workload ?? null, claimed }, clock, events);
  if (!wish) return open(null);
  const claim = async (): Promise<ClaimedSeat | null> => {
    try {
      return await parts.listener.records.claim(wish);
    } catch (error) {
      events.onError(error);
      return null;
    }
  };
  return search(claim, open);
}

function search(
  claim: () => Promise<ClaimedSeat | null>,
  open: (claimed: ClaimedSeat | null) => RemoteSeat,
): FoundSeat {
  let seat: RemoteSeat | null = null;
  let isKilled = false;
  const { promise: leaving, resolve: leave } = Promise.withResolvers<void>();
  const outlive = async (): Promise<Exit> => {
    const claimed = await claim();
    if (claimed) {
      seat = open(claimed);
      if (isKilled) seat.process.kill();
      void seat.process.leaving?.then(leave);
      if (await seat.isBack) return await seat.process.exited;
    }
    if (isKilled) return STOPPED;
    seat = open(null);
    void seat.process.leaving?.then(leave);
    return await seat.process.exited;
  };
  const kill = (): void => {
    isKilled = true;
    seat?.process.kill();
  };
  const process = deferred(() => seat?.process ?? null, { exited: outlive(), leaving, kill });
  return {
    process,
    say: (message) => seat?.say(message),
    place: async () => (await seat?.place()) ?? { kind: "nowhere" },
  };
}

/** Null where a seat cannot be taken over: its place cannot, or its process is a replica and ends with its service. */
function wishOf(
  { place, listener, replicasPerSeat = 1, storage, walls, folders }: RemoteParts,
  workload: Workload,
): SeatWish | null {
  if (!place.adopt || (!workload.mayFork && !workload.server)) return null;
  // A port that the other service gave it could be another server's here.
  if (workload.server && place.isShared) return null;
  const { appNumber, id: versionId } = workload.version;
  const variables = Object.entries(workload.variables).toSorted(([one], [other]) => (one < other ? -1 : 1));
  // Folders are another node's; the blobs of the version are the same files. Names change nothing of what runs.
  const what = { ...workload, names: undefined, variables, bundle: null, environment: null };
  const around = walls?.(workload, 0).asked ?? null;
  const held = folders ? [folders] : [];
  const content = JSON.stringify([GENERATION, place.name, replicasPerSeat, storage, around, what, ...held]);
  return { appNumber, versionId, workload: listener.records.mark(content) };
}
