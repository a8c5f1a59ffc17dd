import type { Socket } from "node:net";
import type { Clock } from "../../kit/clock.ts";
import type { AppError } from "../../model/errors.ts";
import { headerOf } from "../../model/http-request.ts";
import type {
  Conversation,
  ConversationEnd,
  ResponseFlow,
  ResponseHead,
  ResponseSink,
} from "../../replicas/call.ts";
import type { LiveRun, RunEnd, RunReader } from "../../runs/live-run.ts";
import type { Exchange } from "../exchange.ts";
import { ProxyAnswer } from "../proxy/proxy-answer.ts";
import { responseHeaders } from "../proxy/response-headers.ts";
import { OWN_PROTOCOL, offersOwn } from "./socket-token.ts";
import { Tunnel } from "../../kit/websocket/tunnel.ts";
import type { TunnelLimits } from "../../kit/websocket/tunnel.ts";
import type { Tunnels } from "./tunnels.ts";
import type { WaitingCaller } from "../../kit/websocket/waiting-caller.ts";

export type SocketAnswerParts = {
  readonly exchange: Exchange;
  /** Its end of the connection, until the app has agreed. */
  readonly caller: WaitingCaller;
  readonly limits: TunnelLimits;
  readonly tunnels: Tunnels;
  /** Has `end` called when the caller's right to the connection ends; null if nobody watches that. */
  readonly hold: ((end: (error: AppError) => void) => void) | null;
  readonly clock: Clock;
};

const POLICY_VIOLATION = 1008;
/** What both sides of a WebSocket have for their last words whose caller may use it no more. */
const CUT_OFF_MS = 1_000;

/** The caller of a WebSocket: gets one if the app agrees, or else the app's response. */
export class SocketAnswer implements RunReader {
  readonly #parts: SocketAnswerParts;
  readonly #plain: ProxyAnswer;
  #hasUpgraded = false;

  constructor(parts: SocketAnswerParts) {
    this.#parts = parts;
    const { exchange, limits, hold, clock } = parts;
    this.#plain = new ProxyAnswer(exchange, clock, limits.stallMs / 1000, hold);
  }

  attach(run: LiveRun): void {
    if (!this.#hasUpgraded) this.#plain.attach(run);
  }

  onStream(): void {}

  onChunk(): void {}

  onResponse(head: ResponseHead, flow: ResponseFlow): ResponseSink {
    return this.#plain.onResponse(head, flow);
  }

  onUpgrade(head: ResponseHead, app: Socket, rest: Buffer, onOver: ConversationEnd): Conversation | null {
    const { exchange, caller, limits, tunnels, hold, clock } = this.#parts;
    if (exchange.response.destroyed) return null;
    this.#hasUpgraded = true;
    const early = caller.leave();
    const client = exchange.takeOver();
    client.write(this.#handshake(head), "latin1");
    const tunnel = new Tunnel({
      client,
      app,
      limits,
      clock,
      onOver: (isCut) => {
        tunnels.remove(tunnel);
        exchange.tellDropped();
        onOver(isCut);
      },
    });
    tunnels.add(tunnel);
    hold?.((error) => tunnel.close(POLICY_VIOLATION, error.message, CUT_OFF_MS));
    tunnel.begin(early, rest);
    return tunnel;
  }

  onEnd(end: RunEnd): void {
    if (!this.#hasUpgraded) this.#plain.onEnd(end);
  }

  #handshake(head: ResponseHead): string {
    const { exchange } = this.#parts;
    const { headers } = responseHeaders(head, false, exchange);
    headers.push("connection", "Upgrade", "upgrade", "websocket", "x-request-id", exchange.id);
    const hasChosen = headerOf(head.headers, "sec-websocket-protocol") !== null;
    if (!hasChosen && offersOwn(exchange.request.rawHeaders))
      headers.push("sec-websocket-protocol", OWN_PROTOCOL);
    let text = "HTTP/1.1 101 Switching Protocols\r\n";
    for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`;
    return `${text}\r\n`;
  }
}
