import type { Socket } from "node:net";
import type { Clock } from "../../kit/clock.ts";
import { pause } from "../../kit/clock.ts";
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
/** Of agents that have not shown yet that their seat is their own, each of which is a look into the database. */
const MAX_UNPROVED = 64;
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
  #unproved = 0;
  #isClosed = false;

  constructor(parts: LostAgentParts) {
    this.#parts = parts;
  }

  /** Rejects while the database cannot be asked: nobody is told to end then. */
  async lead(agent: LostAgent): Promise<void> {
    if (this.#isClosed || this.#unproved >= MAX_UNPROVED) {
      agent.socket.destroy();
      return;
    }
    this.#unproved += 1;
    const isOpen = await this.#isOpen(agent).finally(() => (this.#unproved -= 1));
    if (this.#isClosed) agent.socket.destroy();
    else if (isOpen) await this.#keep(agent);
  }

  /** Whether its seat may be taken over by somebody; if not, it has its answer. */
  async #isOpen(agent: LostAgent): Promise<boolean> {
    const { records, takeBack } = this.#parts;
    const { socket, proof } = agent;
    const found = await records.find(proof);
    if (socket.destroyed || takeBack(agent)) return false;
    if (found.kind === "open") return true;
    this.#turnAway(
      socket,
      found.kind === "nowhere" ? { fenced: {} } : { elsewhere: { address: found.address } },
    );
    return false;
  }

  /** It has shown that the seat is its own: nobody else can put it out of its place here. */
  async #keep(agent: LostAgent): Promise<void> {
    const { socket, proof } = agent;
    this.#waiting.get(proof.id)?.socket.destroy();
    const entry = { socket, wake: new AbortController() };
    this.#waiting.set(proof.id, entry);
    socket.once("close", () => entry.wake.abort());
    try {
      do {
        socket.resume().write('{"beat":{}}\n');
        entry.wake = new AbortController();
        await pause(this.#parts.clock, LOOK_MS, entry.wake.signal);
      } while (!socket.destroyed && (await this.#isOpen(agent)));
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
