import { queryOptions } from "@tanstack/react-query";
import * as z from "zod/mini";
import type { Infer } from "../../src/shapes/shape.ts";
import { readAnswer } from "./answer.ts";
import type { Schema } from "./schema.ts";

/** A schema is read as it is drawn, and what it does not say is left out. */
const SCHEMA = z.custom<Schema>((value) => typeof value === "object" && value !== null);
const CONTENT = z.record(z.string(), z.object({ schema: SCHEMA }));
const PARAMETER = z.object({
  name: z.string(),
  in: z.enum(["path", "query"]),
  required: z.boolean(),
  schema: SCHEMA,
});
const RESPONSES = z.record(z.string(), z.object({ description: z.string(), content: CONTENT }));
const DESCRIBED = z.object({
  operationId: z.string(),
  tags: z.array(z.string()),
  summary: z.string(),
  "x-access": z.string(),
  parameters: z.array(PARAMETER),
  requestBody: z.optional(z.object({ required: z.boolean(), content: CONTENT })),
  responses: RESPONSES,
});
const DOCUMENT = z.object({
  info: z.object({ version: z.string() }),
  paths: z.record(z.string(), z.record(z.string(), DESCRIBED)),
  components: z.object({ schemas: z.record(z.string(), SCHEMA) }),
});

type Parameter = Infer<typeof PARAMETER>;
type Content = Infer<typeof CONTENT>;

/** An operation of the management API, as its document describes it. */
export type ApiOperation = {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  /** Who may call it: a role, `any`, `person`, `operator` or `anybody`. */
  readonly access: string;
  readonly parameters: readonly Parameter[];
  readonly body: { readonly isRequired: boolean; readonly content: Content } | null;
  readonly responses: Infer<typeof RESPONSES>;
};

export type ApiDocument = {
  readonly version: string;
  readonly operations: readonly ApiOperation[];
  /** Schemas that others refer to, by name. */
  readonly schemas: Readonly<Record<string, Schema>>;
};

/** The management API's own document, which needs no token. */
export const apiDocumentQuery = queryOptions({
  queryKey: ["openapi"],
  queryFn: async ({ signal }) =>
    readDocument(await readAnswer(DOCUMENT, await fetch("/openapi.json", { signal }))),
  staleTime: Infinity,
});

function readDocument({ info, paths, components }: Infer<typeof DOCUMENT>): ApiDocument {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => ({
      id: described.operationId,
      method: method.toUpperCase(),
      path,
      tag: described.tags[0] ?? "",
      summary: described.summary,
      access: described["x-access"],
      parameters: described.parameters,
      body: described.requestBody
        ? { isRequired: described.requestBody.required, content: described.requestBody.content }
        : null,
      responses: described.responses,
    })),
  );
  return { version: info.version, operations, schemas: components.schemas };
}
