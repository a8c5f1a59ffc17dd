import * as z from "zod/mini";

const JSON_SCHEMA = z.record(z.string(), z.unknown());

const OPERATION = z.object({
  summary: z.optional(z.string()),
  description: z.optional(z.string()),
  requestBody: z.optional(
    z.object({
      content: z.optional(z.record(z.string(), z.object({ schema: z.optional(JSON_SCHEMA) }))),
    }),
  ),
  responses: z.optional(
    z.record(z.string(), z.object({ content: z.optional(z.record(z.string(), z.unknown())) })),
  ),
});

/** An app's own OpenAPI document, as far as somebody reads it who wants to call its functions. */
export const APP_DOCUMENT = z.object({
  paths: z.record(z.string(), z.object({ post: z.optional(OPERATION) })),
  components: z.optional(z.object({ schemas: z.optional(z.record(z.string(), JSON_SCHEMA)) })),
});
export type AppDocument = z.infer<typeof APP_DOCUMENT>;
