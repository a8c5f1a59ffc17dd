import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { MAX_PIPELINED } from "../../kit/listener.ts";
import { AppError } from "../../model/errors.ts";
import { closing, requireClearHead } from "./request-head.ts";

type Pending = { readonly request: IncomingMessage; readonly response: ServerResponse };

/**
 * Requests that a caller sends without waiting for answers: those are given in the order of the requests, and
 * nothing is done of what stands behind one that could not be read.
 */
export class Pipelines {
  readonly #pending = new WeakMap<Socket, Pending[]>();
  readonly #refused = new WeakSet<Socket>();
  readonly #unmet = new WeakSet<IncomingMessage>();

  /** A request expects what nobody here can do: it is refused in its turn, like any other. */
  noteUnmet(request: IncomingMessage): void {
    this.#unmet.add(request);
  }

  /** Counts a request; false for one too many, with which its connection ends. */
  take(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request;
    const pending = this.#pending.get(socket) ?? [];
    if (pending.length >= MAX_PIPELINED) {
      this.#refused.add(socket);
      socket.destroy();
    }
    // What else came in the same packet is still told of.
    if (socket.destroyed) return false;
    const own = { request, response };
    pending.push(own);
    this.#pending.set(socket, pending);
    response.once("close", () => pending.splice(pending.indexOf(own), 1));
    return true;
  }

  /** Throws when the head of a request, or of one before it, is refused. */
  check(request: IncomingMessage): void {
    const { socket } = request;
    // Its answer never leaves: the one before closes the connection.
    if (this.#refused.has(socket)) throw new AppError("bad_request");
    try {
      requireClearHead(request);
      if (this.#unmet.has(request)) throw closing("expectation_failed");
    } catch (error) {
      this.#refused.add(socket);
      throw error;
    }
  }

  /** Calls `answer` when all that was asked before on that connection is answered. */
  afterOthers(socket: Socket, answer: () => void): void {
    this.#refused.add(socket);
    // One whose body is what could not be read gets this answer itself.
    const before = this.#pending.get(socket)?.findLast(({ request }) => request.complete);
    if (before) before.response.once("finish", answer);
    else answer();
  }

  /** Resolves when all that was asked before on that connection is answered, or the connection has ended. */
  async othersAnswered(socket: Socket): Promise<void> {
    const before = this.#pending.get(socket)?.at(-1);
    if (!before) return;
    await new Promise<void>((resolve) => before.response.once("close", () => resolve()));
  }
}
