import type { Socket } from "node:net";
import type { Clock } from "../../kit/clock.ts";
import { pause } from "../../kit/pause.ts";
import type { SeatProof, SeatRecords } from "./seat-records.ts";

export type LostAgentParts = {
  readonly records: Pick<SeatRecords, "find">;
  readonly clock: Clock;
  /** Gives it to the seat that it belongs to, if that is one of this service. */
  readonly takeBack: (agent: LostAgent) => boolean;
};

/** An agent that has come back, to whichever service. */
export type LostAgent = { readonly socket: Socket; readonly proof: SeatProof; readonly secret: string };

/** How often an agent that waits is looked up, and hears that it is not forgotten: within its patience. */
const LOOK_MS = 2_000;
/** For the last word to one that must not come back. */
const LAST_WORD_MS = 5_000;

/**
 * Agents that belong to no seat of this service: to another node, to nobody any more, or to a service that is gone. Those
 * wait here until somebody takes their seat over, or they end themselves.
 */
export class LostAgents {
  readonly #parts: LostAgentParts;
  /** One for each seat. */
  readonly #waiting = new Map<string, { readonly socket: Socket; wake: AbortController }>();
  #isClosed = false;

  constructor(parts: LostAgentParts) {
    this.#parts = parts;
  }

  /** Rejects while the database cannot be asked: nobody is told to end then. */
  async lead(agent: LostAgent): Promise<void> {
    const { records, clock, takeBack } = this.#parts;
    const { socket, proof } = agent;
    if (this.#isClosed) {
      socket.destroy();
      return;
    }
    this.#waiting.get(proof.id)?.socket.destroy();
    const entry = { socket, wake: new AbortController() };
    this.#waiting.set(proof.id, entry);
    socket.once("close", () => entry.wake.abort());
    try {
      while (!socket.destroyed) {
        const found = await records.find(proof);
        if (socket.destroyed || takeBack(agent)) return;
        if (found.kind !== "open") {
          this.#turnAway(
            socket,
            found.kind === "nowhere" ? { fenced: {} } : { elsewhere: { address: found.address } },
          );
          return;
        }
        socket.resume().write('{"beat":{}}\n');
        entry.wake = new AbortController();
        await pause(clock, LOOK_MS, entry.wake.signal);
      }
    } finally {
      if (this.#waiting.get(proof.id) === entry) this.#waiting.delete(proof.id);
    }
  }

  /** Its seat is expected by this service now. */
  wake(seatId: string): void {
    this.#waiting.get(seatId)?.wake.abort();
  }

  close(): void {
    this.#isClosed = true;
    for (const { socket } of this.#waiting.values()) socket.destroy();
  }

  #turnAway(socket: Socket, answer: object): void {
    const late = this.#parts.clock.after(LAST_WORD_MS, () => socket.destroy());
    socket.once("close", () => late.cancel());
    socket.resume().end(`${JSON.stringify(answer)}\n`);
  }
}
