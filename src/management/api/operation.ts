import type { FastifyReply } from "fastify";
import { z } from "zod";
import type { Change } from "../../identity/audit.ts";
import type { PersonPrincipal, Principal } from "../../identity/principal.ts";
import type { ErrorCode } from "../../model/errors.ts";
import type { Role } from "../../model/roles.ts";
import type { AppKey } from "../../nodes/forward/app-locator.ts";
import type { Shape } from "../../shapes/shape.ts";

const SHORT = z.string().min(1).max(100);
const PARAMETERS = {
  project_id: SHORT,
  app_id: z.string().min(1).max(200),
  build_id: z.uuid(),
  run_id: z.uuid(),
  job_id: z.uuid(),
  batch_id: z.uuid(),
  schedule_name: z.string().min(1).max(128),
  id: SHORT,
  person_id: SHORT,
  invitation_id: SHORT,
  session_id: SHORT,
  node_id: SHORT,
  part_number: z.coerce.number().int().min(1).max(2_000),
};
type Name = keyof typeof PARAMETERS;
type NamesIn<Path extends string> = Path extends `${string}{${infer First}}${infer Rest}`
  ? First | NamesIn<Rest>
  : never;

export type Params<Path extends string> = {
  readonly [Each in Extract<NamesIn<Path>, Name>]: z.output<(typeof PARAMETERS)[Each]>;
};

/** Who may call: a role in the path's project, any token, a person, the operator, or anyone (null). */
type Access = Role | "any" | "person" | "operator" | null;
type CallerOf<A extends Access> = A extends null ? null : A extends "person" ? PersonPrincipal : Principal;

/** The input as parsed by the operation's schemas, and its sender. */
export type Call<Given = object, Query = unknown, Body = unknown, Caller = Principal | null> = {
  readonly params: Given;
  readonly projectId: Given extends { readonly project_id: string } ? string : string | null;
  readonly query: Query;
  readonly body: Body;
  readonly principal: Caller;
  readonly ip: string;
  /** For headers and answers that are not JSON. */
  readonly reply: FastifyReply;
  /** Writes a change to the audit log, by default that of the path's project. */
  readonly record: (
    action: Change["action"],
    target: Change["target"],
    change?: Partial<Pick<Change, "before" | "after" | "projectId">>,
  ) => Promise<void>;
};

type Method = "GET" | "POST" | "PATCH" | "PUT" | "DELETE";

type Definition<
  Path extends string = string,
  A extends Access = Access,
  Query extends z.ZodType = z.ZodType,
  Body extends Shape = Shape,
  Response extends Shape = Shape,
> = {
  readonly id: string;
  readonly summary: string;
  readonly access: A;
  readonly query?: Query;
  readonly body?: Body;
  /** Unusual limits of the body. */
  readonly maxBodyBytes?: number;
  readonly maxValues?: number;
  readonly takesForm?: boolean;
  /** Takes bytes of any type instead of JSON; the handler reads them from the request. */
  readonly takesBytes?: boolean;
  /** Whether a request with this query reads many rows; the handler must then use a heavy read of the store. */
  isHeavy?(query: z.output<Query>): boolean;
  /** The app, from the query or the body, if the path does not name it. The app's node answers. */
  appOfQuery?(params: Params<Path>, query: z.output<Query>): Promise<AppKey | null>;
  appOfBody?(params: Params<Path>, body: z.output<Body>): AppKey;
  readonly response: Response;
  /** Answers with bytes instead of JSON: a file, or the requested range of it. */
  readonly givesBytes?: boolean;
  /** Another type of answer that a caller may ask for; the handler sends it. */
  readonly alsoGives?: "text/csv";
  /** Streams lines of JSON, each of them a `response`. */
  readonly givesLines?: boolean;
  /** The body of a 400 that does not have the usual form of an error. */
  readonly refusal?: Shape;
  /** Errors in addition to those of every operation. */
  readonly errors?: readonly ErrorCode[];
  handle(
    call: Call<Params<Path>, z.output<Query>, z.output<Body>, CallerOf<A>>,
  ): Promise<z.input<Response> | FastifyReply> | z.input<Response> | FastifyReply;
};

/** An operation: its route, checks, OpenAPI document and row in `docs/management.md` come from it. */
export type Operation = Definition & {
  readonly method: Method;
  /** With parameters in braces: `/v2/projects/{project_id}/apps`. */
  readonly path: string;
  readonly tag: string;
  readonly params: z.ZodType<object>;
};

/** Returns a function that defines operations with that tag; each gets its types from its path and schemas. */
export function tagged(tag: string) {
  return <
    Path extends string,
    A extends Access,
    Query extends z.ZodType,
    Body extends Shape,
    Response extends Shape,
  >(
    method: Method,
    path: Path,
    definition: Definition<Path, A, Query, Body, Response>,
  ): Operation => {
    const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name as Name);
    const params = z.object(Object.fromEntries(names.map((name) => [name, PARAMETERS[name]])));
    return { method, path, tag, params, ...definition };
  };
}
