import { z } from "zod";

type Json = Record<string, unknown>;

const NAME = /^[A-Za-z0-9._-]+$/;
const TYPES = ["null", "boolean", "object", "array", "number", "string", "integer"] as const;
const count = z.int().min(0);

/** The references met while a document is read. */
const refs = new Set<string>();

/** A schema as JSON Schema 2020-12 writes one, as far as its keywords are known here. */
const schema: z.ZodType = z.lazy(() =>
  z.union([
    z.boolean(),
    z.looseObject({
      $ref: z
        .string()
        .refine((ref) => refs.add(ref))
        .optional(),
      $defs: z.never().optional(),
      type: z.union([z.enum(TYPES), z.array(z.enum(TYPES)).min(1)]).optional(),
      properties: z.record(z.string(), schema).optional(),
      required: z
        .array(z.string())
        .refine((names) => new Set(names).size === names.length)
        .optional(),
      additionalProperties: schema.optional(),
      items: schema.optional(),
      prefixItems: z.array(schema).min(1).optional(),
      anyOf: z.array(schema).min(1).optional(),
      oneOf: z.array(schema).min(1).optional(),
      allOf: z.array(schema).min(1).optional(),
      not: schema.optional(),
      enum: z.array(z.unknown()).min(1).optional(),
      minItems: count.optional(),
      maxItems: count.optional(),
      minLength: count.optional(),
      maxLength: count.optional(),
      uniqueItems: z.boolean().optional(),
      format: z.string().optional(),
      pattern: z.string().optional(),
      title: z.string().optional(),
      description: z.string().optional(),
    }),
  ]),
);

const extensions = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z
    .looseObject(shape)
    .refine(
      (value) => Object.keys(value).every((key) => key in shape || key.startsWith("x-")),
      "has a member that OpenAPI does not know",
    );
const content = z.record(
  z.string().regex(/^[a-z]+\/[a-z.+-]+$/),
  extensions({ schema, "x-item-schema": schema.optional() }),
);
const header = extensions({ description: z.string().optional(), required: z.boolean().optional(), schema });
const response = extensions({
  description: z.string(),
  headers: z.record(z.string(), header).optional(),
  content: content.optional(),
});
const operation = extensions({
  operationId: z.string().min(1),
  summary: z.string().optional(),
  description: z.string().optional(),
  parameters: z
    .array(
      extensions({
        name: z.string(),
        in: z.enum(["query", "header", "path", "cookie"]),
        required: z.boolean().optional(),
        description: z.string().optional(),
        schema,
      }),
    )
    .optional(),
  requestBody: extensions({ required: z.boolean().optional(), content }).optional(),
  responses: z
    .record(z.string().regex(/^(?:[1-5]\d\d|default)$/), response)
    .refine((responses) => Object.keys(responses).length > 0),
});
const document = extensions({
  openapi: z.string().regex(/^3\.1\.\d+$/),
  info: extensions({ title: z.string().min(1), version: z.string().min(1) }),
  servers: z.array(extensions({ url: z.string() })).optional(),
  security: z.array(z.record(z.string(), z.array(z.string()))).optional(),
  paths: z.record(z.string().startsWith("/"), extensions({ post: operation })),
  components: extensions({
    schemas: z.record(z.string().regex(NAME), schema).optional(),
    securitySchemes: z
      .record(
        z.string().regex(NAME),
        extensions({ type: z.literal("http"), scheme: z.string(), bearerFormat: z.string().optional() }),
      )
      .optional(),
  }),
});

/** What keeps a document from being OpenAPI 3.1, as far as apps' documents use it; one line each. */
export function openApiFaults(value: unknown): string[] {
  refs.clear();
  const read = document.safeParse(value);
  if (!read.success) return read.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  const { components, paths, security = [] } = read.data;
  const faults: string[] = [];
  for (const ref of refs) {
    const [, name = ""] = /^#\/components\/schemas\/(.+)$/.exec(ref) ?? [];
    if (!Object.hasOwn(components.schemas ?? {}, name)) faults.push(`${ref} leads nowhere`);
  }
  const ids = Object.values(paths).map(({ post }) => post.operationId);
  if (new Set(ids).size < ids.length) faults.push("an operationId stands twice");
  for (const name of security.flatMap((each) => Object.keys(each))) {
    if (!Object.hasOwn(components.securitySchemes ?? {}, name))
      faults.push(`security ${name} is not described`);
  }
  return faults;
}

/** A schema of the document as one that is whole in itself, ready to check values. */
export function checkerOf(value: object, part: object): z.ZodType {
  const { components } = value as { components: { schemas: Json } };
  const whole = JSON.stringify({ ...part, $defs: components.schemas });
  return z.fromJSONSchema(
    JSON.parse(whole.replaceAll("#/components/schemas/", "#/$defs/")) as z.core.JSONSchema.JSONSchema,
  );
}
