import { isDeepStrictEqual } from "node:util";
import type { Engine, ReplicaStart, Seat, SeatEvents, Started } from "../engines/engine.ts";
import type { StartedServer, Workload } from "../engines/engine.ts";
import type { Home } from "../engines/home.ts";
import type { OutputEvents } from "../engines/log-lines.ts";

const NEVER_STARTED: Started & StartedServer = {
  exited: Promise.resolve({ detail: "stopped before it started", initFailure: null }),
  kill: () => {},
  vitals: () => null,
  usage: async () => null,
  pid: 0,
  askToEnd: () => {},
  place: async () => ({ kind: "nowhere" }),
};

/** The seats of a version: shared by replicas that a template forks; one for each replica that cannot be forked. */
export class Seats {
  readonly #engine: Engine;
  readonly #home: Home;
  readonly #events: SeatEvents;
  /** Seats with a living process. */
  readonly #open = new Set<Seat>();
  /** The app's own servers that have not ended. */
  readonly #servers = new Set<StartedServer>();
  /** Seats that take more replicas, with their number of replicas. */
  readonly #taking = new Map<Seat, number>();
  #workload: Workload;
  #keepMs: number;
  /** One of its templates could not fork. */
  #isSingle = false;
  #isClosed = false;

  /** A seat is kept for `keepMs` without a replica. */
  constructor(engine: Engine, home: Home, workload: Workload, keepMs: number, events: SeatEvents) {
    this.#engine = engine;
    this.#home = home;
    this.#workload = workload;
    this.#keepMs = keepMs;
    this.#events = events;
  }

  /** Asked each time: GPUs may have been found meanwhile. */
  get #forks(): boolean {
    const workload = this.#workload;
    return !this.#isSingle && workload.mayFork && (this.#engine.gpuHandling?.(workload).mayFork ?? true);
  }

  start(replica: ReplicaStart): Started {
    if (this.#isClosed) return NEVER_STARTED;
    if (!this.#forks) return this.#openSeat({ ...this.#workload, mayFork: false }).start(replica);
    const { replicasPerSeat = Number.POSITIVE_INFINITY } = this.#engine;
    const open = [...this.#taking].filter(([, count]) => count < replicasPerSeat);
    // The fullest seat with room, so that others become empty.
    const [fullest] = open.toSorted(([, one], [, other]) => other - one);
    const seat = fullest?.[0] ?? this.#openSeat(this.#workload);
    this.#count(seat, 1);
    const started = seat.start(replica);
    void started.exited.then(() => this.#count(seat, -1));
    return started;
  }

  /** Starts the app's own server; each has a seat of its own. */
  serve(events: OutputEvents, replicaId: string): StartedServer {
    if (this.#isClosed) return NEVER_STARTED;
    const { tenancy } = this.#events;
    const server = this.#engine.serve(this.#workload, { ...events, replicaId, ...(tenancy && { tenancy }) });
    this.#servers.add(server);
    void server.exited.then(() => this.#servers.delete(server));
    return server;
  }

  /** Applies to replicas started from now on. Existing ones and their template stay as they are. */
  update(workload: Workload, keepMs: number): void {
    const isSame = isDeepStrictEqual(this.#workload, workload);
    const seats = [...this.#taking.keys()];
    this.#workload = workload;
    this.#keepMs = keepMs;
    if (!isSame) this.#taking.clear();
    for (const seat of seats) {
      if (isSame) seat.keepFor(keepMs);
      else seat.leave();
    }
  }

  /** Ends all processes of the version, including idle templates. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const server of this.#servers) server.kill();
    await Promise.all([
      ...Array.from(this.#open, (seat) => seat.close()),
      ...Array.from(this.#servers, ({ exited }) => exited),
    ]);
  }

  #count(seat: Seat, change: number): void {
    const before = this.#taking.get(seat);
    if (before === undefined) return;
    const isSpare = before + change === 0 && [...this.#taking.values()].includes(0);
    this.#taking.set(seat, before + change);
    if (!isSpare) return;
    // One empty seat is enough for a fast start: each reserves part of a machine.
    this.#taking.delete(seat);
    seat.leave();
  }

  #openSeat(workload: Workload): Seat {
    const seat: Seat = this.#engine.open(workload, this.#keepMs, this.#home, {
      ...this.#events,
      onSingle: () => (this.#isSingle = true),
      // Replaces a dead template, or starts beside one that may not fork.
      elsewhere: (replica) =>
        this.#forks || this.#isClosed
          ? this.start(replica)
          : this.#openSeat({ ...workload, mayFork: false }).start(replica),
      onOver: () => this.#taking.delete(seat),
      onEnded: () => this.#open.delete(seat),
    });
    this.#open.add(seat);
    if (workload.mayFork) this.#taking.set(seat, 0);
    return seat;
  }
}
