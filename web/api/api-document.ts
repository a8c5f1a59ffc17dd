import { queryOptions } from "@tanstack/react-query";
import { readAnswer } from "./answer.ts";
import type { Schema } from "./schema.ts";

export type Parameter = {
  readonly name: string;
  readonly in: "path" | "query";
  readonly required: boolean;
  readonly schema: Schema;
};

type Content = Readonly<Record<string, { readonly schema: Schema }>>;

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
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content: Content }>>;
};

type Described = {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly "x-access": string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: ApiOperation["responses"];
};

type Document = {
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
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
    readDocument(await readAnswer<Document>(await fetch("/openapi.json", { signal }))),
  staleTime: Infinity,
});

function readDocument({ info, paths, components }: Document): ApiDocument {
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
