import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import type { Clock, Timer } from "../clock.ts";
import { closeFrame, Lane, pingFrame } from "./lane.ts";
import { GrowingBytes } from "../bytes.ts";

/** How long a WebSocket may last, and be idle, and how long one side may leave bytes unread. */
export type TunnelLimits = {
  readonly maxAgeMs: number;
  readonly idleMs: number;
  readonly stallMs: number;
};

type TunnelParts = {
  readonly client: Socket;
  readonly app: Socket;
  readonly limits: TunnelLimits;
  readonly clock: Clock;
  /** Both connections have ended; `isCut`: the app's ended first, without a close frame. */
  readonly onOver: (isCut: boolean) => void;
};

type Side = {
  readonly socket: Socket;
  /** For frames to this side. */
  readonly lane: Lane;
  /** It has sent something since the last check. */
  isHeard: boolean;
  /** A ping was sent to it. */
  isAsked: boolean;
  /** Since when it has left bytes unread; null while it reads. */
  stalledAt: number | null;
};

const MARK_BYTES = 12;
const GOING_AWAY = 1001;
const INTERNAL_ERROR = 1011;
/** The time for both sides to finish after our close frame. */
const FAREWELL_MS = 5_000;

/** A WebSocket between a caller and an app. The caller always gets a close frame, unless a frame was interrupted. */
export class Tunnel {
  readonly #parts: TunnelParts;
  readonly #client: Side;
  readonly #app: Side;
  /** The payload of our pings, and of their answers. */
  readonly #mark = randomBytes(MARK_BYTES);
  readonly #begunAt: number;
  #passedAt: number;
  /** At the last check. */
  #passedBytes = 0;
  #isClosing = false;
  #hasClientLeft = false;
  #isCut = false;
  #farewell: Timer | null = null;
  #open = 2;

  constructor(parts: TunnelParts) {
    this.#parts = parts;
    this.#begunAt = parts.clock.monotonic();
    this.#passedAt = this.#begunAt;
    this.#client = this.#side(parts.client);
    this.#app = this.#side(parts.app);
    this.#join(this.#client, this.#app);
    this.#join(this.#app, this.#client);
    parts.client.once("close", () => this.#onClientClosed());
    parts.app.once("close", () => this.#onAppClosed());
  }

  /** The bytes that came with the handshake. */
  begin(fromClient: Buffer, fromApp: Buffer): void {
    if (fromClient.length > 0) this.#pass(fromClient, this.#client, this.#app);
    if (fromApp.length > 0) this.#pass(fromApp, this.#app, this.#client);
  }

  get requestBytes(): number {
    return this.#app.lane.passedBytes;
  }

  get responseBytes(): number {
    return this.#client.lane.passedBytes;
  }

  /** Sends a close frame to both sides, which then have that long to finish. */
  close(code: number, reason: string, farewellMs = FAREWELL_MS): void {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#client.lane.shut(closeFrame(code, reason, false));
    this.#app.lane.shut(closeFrame(code, reason, true));
    this.#awaitEnd(farewellMs);
  }

  /** Sends a ping to a silent side; closes the tunnel if the last ping had no answer. */
  look(): void {
    if (this.#isClosing) return;
    const { limits, clock } = this.#parts;
    const now = clock.monotonic();
    const passedBytes = this.requestBytes + this.responseBytes;
    if (passedBytes > this.#passedBytes) this.#passedAt = now;
    this.#passedBytes = passedBytes;
    if (now - this.#begunAt > limits.maxAgeMs)
      return this.close(GOING_AWAY, "it is as old as websocket_max_age allows");
    if (now - this.#passedAt > limits.idleMs)
      return this.close(GOING_AWAY, "nothing was sent for longer than websocket_idle_timeout");
    for (const each of [this.#client, this.#app]) {
      if (each.stalledAt !== null && now - each.stalledAt > limits.stallMs) this.#giveUp(each, "read");
      else this.#ask(each);
    }
  }

  destroy(): void {
    this.#client.socket.destroy();
    this.#app.socket.destroy();
  }

  #side(socket: Socket): Side {
    const lane = new Lane(this.#mark, {
      write: (bytes) => socket.destroyed || socket.write(bytes),
      onShut: () => socket.end(),
    });
    return { socket, lane, isHeard: false, isAsked: false, stalledAt: null };
  }

  #join(from: Side, to: Side): void {
    const { socket } = from;
    socket.setNoDelay(true);
    socket.setTimeout(0);
    socket.on("error", () => {}); // `close` follows.
    socket.on("data", (data: Buffer) => this.#pass(data, from, to));
    socket.on("drain", () => {
      from.stalledAt = null;
      to.socket.resume();
    });
    socket.once("end", () => this.#onEnded(from, to));
    socket.resume();
  }

  #pass(data: Buffer, from: Side, to: Side): void {
    from.isHeard = true;
    if (to.lane.feed(data)) return;
    to.stalledAt ??= this.#parts.clock.monotonic();
    from.socket.pause();
  }

  #ask(each: Side): void {
    // While the other side does not read, this one is paused.
    if (each.socket.isPaused()) return;
    if (each.isHeard) {
      each.isHeard = false;
      each.isAsked = false;
    } else if (!each.isAsked) {
      each.isAsked = true;
      each.lane.put(pingFrame(this.#mark, each === this.#app));
    } else this.#giveUp(each, "answer");
  }

  /** The caller gets a close frame if the app does not respond; a caller that does not respond cannot get one. */
  #giveUp(each: Side, what: string): void {
    if (each === this.#client) this.destroy();
    else this.close(INTERNAL_ERROR, `the app does not ${what}`);
  }

  /** Discards what both still send: closing a connection with unread bytes resets it, and loses an unread close frame. */
  #awaitEnd(farewellMs = FAREWELL_MS): void {
    for (const { socket } of [this.#client, this.#app]) socket.resume();
    this.#farewell ??= this.#parts.clock.after(farewellMs, () => this.destroy());
  }

  #onEnded(from: Side, to: Side): void {
    to.lane.end();
    if (from === this.#client) this.#hasClientLeft = true;
    if (from === this.#app && !to.lane.hasClosed) this.#cut();
    else to.socket.end();
  }

  /** The app has ended without a close frame: the caller gets one. */
  #cut(): void {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#isCut = !this.#hasClientLeft;
    this.#client.lane.shut(closeFrame(INTERNAL_ERROR, "the app ended the connection", false));
    // In the middle of a frame, none can be sent.
    this.#client.socket.end();
    this.#awaitEnd();
  }

  #onClientClosed(): void {
    this.#hasClientLeft = true;
    this.#app.socket.destroySoon();
    this.#onClosed();
  }

  #onAppClosed(): void {
    if (!this.#client.lane.hasClosed) this.#cut();
    this.#client.socket.end();
    this.#awaitEnd();
    this.#onClosed();
  }

  #onClosed(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    this.#farewell?.cancel();
    this.#parts.onOver(this.#isCut);
  }
}

/** What a caller may send before its handshake is answered; then its socket is paused. */
const MAX_BYTES = 64 * 1024;

/** A caller whose handshake is not answered yet: keeps its early bytes, and closes the connection if it leaves. */
export class WaitingCaller {
  readonly #socket: Socket;
  readonly #early = new GrowingBytes();
  readonly #onData = (data: Buffer): void => {
    this.#early.add(data, 0, data.length);
    if (this.#early.length >= MAX_BYTES) this.#socket.pause();
  };
  readonly #onEnd = (): void => void this.#socket.destroy();

  /** `first` came with the handshake. */
  constructor(socket: Socket, first: Buffer) {
    this.#socket = socket;
    this.#early.add(first, 0, first.length);
    // HTTP has detached the socket, so its end is read here.
    socket.on("data", this.#onData).once("end", this.#onEnd);
  }

  /** Gives the connection away; returns the bytes so far. */
  leave(): Buffer {
    this.#socket.off("data", this.#onData).off("end", this.#onEnd);
    return this.#early.take();
  }
}
