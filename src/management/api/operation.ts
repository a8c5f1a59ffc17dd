import type { FastifyReply } from "fastify";
import type { z } from "zod";
import type { Shape } from "../../shapes/shape.ts";
import type { Principal } from "../../identity/principal.ts";
import type { ErrorCode } from "../../model/errors.ts";
import type { Role } from "../../model/roles.ts";
import type { AppKey } from "../../nodes/forward/app-locator.ts";

/** What an operation is called with: its input in the form its schemas give, and who asks. */
export type Call<Params, Query, Body> = {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** Null where the operation needs no token. */
  readonly principal: Principal | null;
  readonly requestId: string;
  readonly ip: string;
  /** For headers and for answers that are not JSON. */
  readonly reply: FastifyReply;
};

/**
 * Who may call an operation: a role in the path's project; "any" token; a "person" who has signed in; the
 * "operator" of the installation; null for whoever comes.
 */
type Access = Role | "any" | "person" | "operator" | null;

/**
 * One operation of the management API: the one source of its validation, its types and its place in the OpenAPI
 * document.
 */
export type Operation<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends Shape = Shape,
  Response extends Shape = Shape,
> = {
  readonly method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** With parameters in braces: `/v2/projects/{project_id}/apps`. */
  readonly path: string;
  /** Unique, in camelCase. */
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly access: Access;
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: Body;
  /** What the body may hold, where that is not the usual: bytes, and values in it. */
  readonly maxBodyBytes?: number;
  readonly maxValues?: number;
  /** A form as well as JSON. */
  readonly takesForm?: boolean;
  /** Bytes of any type instead of JSON; the operation reads them from the request itself. */
  readonly takesBytes?: boolean;
  /** Whether a request with that query looks at many rows; what it reads has to be a heavy read of the store. */
  readonly isHeavy?: (query: z.output<Query>) => boolean;
  /** Which app it is about, where its path does not say: by its query, or by its body. The node that has it answers. */
  readonly appOfQuery?: (params: z.output<Params>, query: z.output<Query>) => Promise<AppKey | null>;
  readonly appOfBody?: (params: z.output<Params>, body: z.output<Body>) => AppKey;
  /** Of the 200. */
  readonly response: Response;
  /** Bytes instead of JSON, the whole file or the range that was asked for. */
  readonly givesBytes?: boolean;
  /** Lines of JSON as they come, each of the response's form. */
  readonly givesLines?: boolean;
  /** Of a 400 that has another form than our errors. */
  readonly refusal?: Shape;
  /** What it may answer besides what every operation may. */
  readonly errors?: readonly ErrorCode[];
  handle(
    call: Call<z.output<Params>, z.output<Query>, z.output<Body>>,
  ): Promise<z.input<Response> | FastifyReply> | z.input<Response> | FastifyReply;
};

/** An operation whose types are known only to itself. */
export type AnyOperation = Omit<Operation, "handle" | "isHeavy" | "appOfQuery" | "appOfBody"> & {
  readonly isHeavy?: (query: never) => boolean;
  readonly appOfQuery?: (params: never, query: never) => Promise<AppKey | null>;
  readonly appOfBody?: (params: never, body: never) => AppKey;
  handle(call: Call<never, never, never>): unknown;
};

/** Gives an operation its types from its schemas. */
export function operation<
  Params extends z.ZodType,
  Query extends z.ZodType,
  Body extends Shape,
  Response extends Shape,
>(definition: Operation<Params, Query, Body, Response>): AnyOperation {
  return definition;
}
