import type { Clock, Timer } from "../kit/clock.ts";
import type { Connection, ConnectionUser } from "../kit/http/connection.ts";
import { BadResponse } from "../kit/http/fields.ts";
import { ResponseParser } from "../kit/http/response-parser.ts";
import type { ResponseEvents, ResponseHead } from "../kit/http/response-parser.ts";
import { KeptBody } from "../kit/kept-body.ts";
import type { Peer } from "./peers.ts";
import { ownHead } from "./forward/hop-head.ts";
import type { Peers } from "./peers.ts";

const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const PATIENCE_MS = 5_000;

/** A node did not answer, or refused: the message says which of it. */
export class PeerFailure extends Error {}

/** How to ask: for how long to wait, and whether on a connection that is made for it, and closed after it. */
export type Asking = { readonly patienceMs?: number; readonly isFresh?: boolean };

/** Says something to another node, a path and a value as JSON, and gives its answer; throws `PeerFailure`. */
export async function ask(
  { peers, clock }: { readonly peers: Peers; readonly clock: Clock },
  peer: Peer,
  path: string,
  value: unknown,
  { patienceMs = PATIENCE_MS, isFresh = false }: Asking = {},
): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    const text = JSON.stringify(value);
    const question = new Question(
      peers,
      peer,
      ownHead(path, Buffer.byteLength(text)) + text,
      resolve,
      reject,
    );
    question.start(clock, patienceMs, isFresh);
  });
}

class Question implements ConnectionUser, ResponseEvents {
  readonly #peers: Peers;
  readonly #peer: Peer;
  readonly #text: string;
  readonly #resolve: (answer: unknown) => void;
  readonly #reject: (error: PeerFailure) => void;
  readonly #parser = new ResponseParser("POST", this);
  readonly #kept = new KeptBody(MAX_ANSWER_BYTES);
  #connection: Connection | null = null;
  #late: Timer | null = null;
  #isFresh = false;
  #status = 0;

  constructor(
    peers: Peers,
    peer: Peer,
    text: string,
    resolve: (answer: unknown) => void,
    reject: (error: PeerFailure) => void,
  ) {
    this.#peers = peers;
    this.#peer = peer;
    this.#text = text;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  start(clock: Clock, patienceMs: number, isFresh: boolean): void {
    this.#late = clock.after(patienceMs, () => this.#fail("it did not answer in time"));
    this.#isFresh = isFresh;
    const idle = isFresh ? null : this.#peers.take(this.#peer, this);
    this.#connection = idle ?? this.#peers.open(this.#peer, this);
    if (idle) this.onOpen();
  }

  onOpen(): void {
    this.#connection?.socket.write(this.#text);
  }

  onData(data: Buffer): void {
    try {
      this.#parser.feed(data);
    } catch (error) {
      if (!(error instanceof BadResponse)) throw error;
      this.#fail(error.message);
    }
  }

  onDrain(): void {}

  onLost(): void {
    this.#fail("the connection to it ended");
  }

  onContinue(): void {}

  onHead({ status }: ResponseHead): void {
    this.#status = status;
  }

  onBody(bytes: Buffer): void {
    this.#kept.add(bytes);
    if (this.#kept.isTooLarge) this.#fail("its answer is too large");
  }

  onEnd(_: readonly string[], isReusable: boolean): void {
    const connection = this.#connection;
    if (!connection) return;
    const text = this.#kept.whole()?.toString() ?? "";
    if (this.#status !== 200) {
      this.#fail(`it answered ${this.#status}: ${text.slice(0, 200)}`);
      return;
    }
    this.#connection = null;
    this.#late?.cancel();
    // A node is greeted for as long as a stream lasts there: each greeting would leave a connection behind.
    if (isReusable && !this.#isFresh) this.#peers.release(this.#peer, connection);
    else connection.socket.destroy();
    try {
      this.#resolve(JSON.parse(text));
    } catch {
      this.#reject(new PeerFailure(`node ${this.#peer.id}: its answer is no JSON`));
    }
  }

  #fail(why: string): void {
    const connection = this.#connection;
    if (!connection) return;
    this.#connection = null;
    this.#late?.cancel();
    connection.user = null;
    connection.socket.destroy();
    this.#reject(new PeerFailure(`node ${this.#peer.id}: ${why}`));
  }
}
