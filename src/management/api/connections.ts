import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Writable } from "node:stream";
import type { ListenerLimits } from "../../config/listener-limits.ts";
import type { Clock } from "../../kit/clock.ts";
import { clientAddress } from "../../kit/ip-addresses.ts";
import { ConnectionGate, type Doing, type Visitor } from "../../kit/listener.ts";
import { AppError, noRoom } from "../../model/errors.ts";
import type { FromPeer } from "../../nodes/peer-listener.ts";

const passedOn = new WeakMap<IncomingMessage, FromPeer>();

export function noteFromPeer(request: IncomingMessage, from: FromPeer): void {
  passedOn.set(request, from);
}

/** What the node that forwarded a request says about it; null for a request that was not forwarded. */
export function fromPeer(request: IncomingMessage): FromPeer | null {
  return passedOn.get(request) ?? null;
}

type Visit = {
  readonly visitor: Visitor;
  latest: { readonly request: IncomingMessage; readonly response: ServerResponse } | null;
  isUpgraded: boolean;
};

/** The sender of a request, from its connection; `onKnown` is called when the token shows the owner. */
export type Sender = { readonly ip: string; readonly onKnown: (owner: string) => void };

/** Limits for reading the rest of a body after the answer, so that the client reads the answer. */
const REST_BYTES = 4 * 1024 * 1024;
const REST_MS = 5_000;
const LOOK_MS = 200;

/** The connections of the management listener, within their limits. */
export class ManagementConnections {
  readonly #limits: ListenerLimits;
  readonly #clock: Clock;
  readonly #gate: ConnectionGate;
  readonly #visits = new WeakMap<Socket, Visit>();

  constructor(limits: ListenerLimits, clock: Clock, end: (socket: Socket, error: Error) => void) {
    this.#limits = limits;
    this.#clock = clock;
    this.#gate = new ConnectionGate({
      ...limits,
      maxPerAddress: limits.maxConnectionsPerAddress,
      clock,
      turnAway: (socket, why) => end(socket, noRoom(why)),
    });
  }

  watch(server: Server): void {
    server.on("connection", (socket: Socket) => {
      const visit: Visit = {
        visitor: this.#gate.arrive(socket, () => doing(visit)),
        latest: null,
        isUpgraded: false,
      };
      this.#visits.set(socket, visit);
    });
    // Before the framework, which may answer at once.
    server.prependListener("request", (request, response) => {
      const visit = this.#visits.get(request.socket);
      if (visit) visit.latest = { request, response };
    });
    server.prependListener("upgrade", ({ socket }: IncomingMessage) => {
      const visit = this.#visits.get(socket);
      if (visit) visit.isUpgraded = true;
    });
    server.setTimeout(this.#limits.idleTimeoutMs, (socket) => {
      // A client that waits for an answer is not idle, and its body has its own timeout; one that does not read is.
      const { latest = null, isUpgraded = false } = this.#visits.get(socket) ?? {};
      const isWaiting = isUpgraded || (latest !== null && !latest.response.writableFinished);
      if (!isWaiting || socket.writableLength > 0) socket.destroy();
    });
  }

  /** Counts a request until `answer` closes; throws `too_many_connections` and `overloaded` at the limits. */
  receive(request: IncomingMessage, answer: Writable): Sender {
    const visitor = this.#visits.get(request.socket)?.visitor;
    const from = fromPeer(request);
    const remote = from?.remote ?? request.socket.remoteAddress ?? "";
    const header = request.headers["x-forwarded-for"];
    const forwarded = Array.isArray(header) ? header.join(",") : (header ?? null);
    // The node that forwarded it has counted it.
    if (from) return { ip: clientAddress(remote, forwarded, this.#limits.trusted), onKnown: () => {} };
    if (!visitor) return { ip: remote, onKnown: () => {} };
    if (visitor.refusal !== null) throw closing(noRoom(visitor.refusal));
    const onKnown = (owner: string): void => {
      if (!visitor.know(owner)) throw closing(noRoom("owner"));
    };
    if (visitor.address !== null) return { ip: remote, onKnown };
    const ip = clientAddress(remote, forwarded, this.#limits.trusted);
    const leave = this.#gate.enter(ip);
    // The connection is the proxy's, which sends other requests on it.
    if (!leave) throw noRoom("address");
    answer.once("close", leave);
    return {
      ip,
      onKnown: (owner) => {
        leave();
        onKnown(owner);
      },
    };
  }

  /** Reads the rest of a request that was answered early; ends the connection unless the rest arrives soon. */
  readRest(request: IncomingMessage): void {
    const { socket } = request;
    if (!this.#visits.has(socket)) return;
    const limit = socket.bytesRead + REST_BYTES;
    const deadline = this.#clock.monotonic() + REST_MS;
    // Node drops the rest by itself, unless reading has begun.
    request.resume();
    const timer = this.#clock.every(LOOK_MS, () => {
      if (socket.bytesRead > limit || this.#clock.monotonic() >= deadline) socket.destroy();
    });
    request.once("close", () => timer.cancel());
  }
}

function closing({ code, detail }: AppError): AppError {
  return new AppError(code, { ...detail, headers: { ...detail.headers, connection: "close" } });
}

function doing({ latest, isUpgraded }: Visit): Doing {
  if (isUpgraded) return "busy";
  if (!latest || !latest.request.complete) return "silent";
  return latest.response.writableFinished ? "idle" : "busy";
}
