import type { HttpRequest } from "../../model/http-request.ts";
import type { ResponseHead } from "../../kit/http/response-parser.ts";

/** A request's body that comes piece by piece. */
export type BodySource = {
  /** How many bytes it has; null where only its end tells. */
  readonly length: number | null;
  /** Begins to read; `take` gives whether more may come at once, and calls `onSent` when nobody needs the bytes. */
  start(
    take: (bytes: Buffer, onSent?: () => void) => boolean,
    end: (trailers: readonly string[]) => void,
  ): void;
  /** `take` said no before: now there is room again. */
  resume(): void;
  /** The rest is of no use to anybody. */
  stop(): void;
};

/** A request on its way to a server. */
export type HttpCallRequest = HttpRequest & {
  readonly body: Buffer | BodySource;
  /** How much of the response's body is kept beside what its caller gets. */
  readonly keptBytes: number;
  /** A response whose body is larger than that has failed: somebody will ask for it. */
  readonly mustKeep: boolean;
  /** It asks for a WebSocket. */
  readonly isUpgrade?: boolean;
};

/** How many bytes of bodies, or of a WebSocket's frames, a server has got and sent. */
export type Traffic = { readonly requestBytes: number; readonly responseBytes: number };

/** A connection of two who talk as they like, a WebSocket. */
export type Conversation = Traffic & {
  /** Says goodbye to both; nothing more passes. */
  close(code: number, reason: string): void;
};

/** Tells of its end; `isCut`: the app has broken it off. */
export type ConversationEnd = (isCut: boolean) => void;

/** Where a response's body goes. */
export type ResponseSink = {
  /**
   * Gives whether more may come at once; if not, `resume` of the flow is called later. `onSent` is called when the sink
   * does not need the bytes any more.
   */
  write(bytes: Buffer, onSent?: () => void): boolean;
  trailers(trailers: readonly string[]): void;
};

/** Holds a response back while its sink is full. */
export type ResponseFlow = { pause(): void; resume(): void };

export type { ResponseHead };
