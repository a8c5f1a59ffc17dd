import { expect, test } from "vitest";
import { z } from "zod";
import { allOperations } from "../../../src/management/operations.ts";
import type { Schema } from "../../../web/api/schema.ts";
import { exampleOf, rowsOf, ruleOf, typeOf } from "../../../web/pages/reference/schema-text.ts";

const schemaOf = (schema: z.core.$ZodType, io: "input" | "output"): Schema =>
  z.toJSONSchema(schema, { io, unrepresentable: "any" }) as Schema;

test("a schema becomes rows with types and bounds, what is inside it one level deeper", () => {
  const schema = schemaOf(
    z.object({
      name: z.string().min(1).max(100),
      limit: z.int().min(1).max(50).default(10),
      at: z.iso.datetime().nullable(),
      kind: z.enum(["a", "b"]),
      items: z.array(z.object({ size: z.number() })).optional(),
    }),
    "input",
  );
  expect(rowsOf(schema)).toEqual([
    { name: "name", depth: 0, type: "string", isRequired: true, rule: "1 to 100 characters" },
    { name: "limit", depth: 0, type: "integer", isRequired: false, rule: "1 to 50, default 10" },
    { name: "at", depth: 0, type: "string (date-time) or null", isRequired: true, rule: "" },
    { name: "kind", depth: 0, type: '"a" | "b"', isRequired: true, rule: "" },
    { name: "items", depth: 0, type: "array of object", isRequired: false, rule: "" },
    { name: "size", depth: 1, type: "number", isRequired: true, rule: "" },
  ]);
  expect(typeOf({ $ref: "#/components/schemas/Error" })).toBe("Error");
  expect(ruleOf({ type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER })).toBe("at least 0");
});

test("the example of a request has what is required, that of an answer everything", () => {
  const schema = schemaOf(z.object({ name: z.string(), note: z.string().optional() }), "input");
  expect(exampleOf(schema, true)).toEqual({ name: "name" });
  expect(exampleOf(schema)).toEqual({ name: "name", note: "note" });
});

test("every operation has an example of its answer that its own schema takes", () => {
  const wrong = allOperations({} as never).flatMap(({ id, response, givesBytes }) => {
    if (givesBytes) return [];
    const { success, error } = z.safeParse(response, exampleOf(schemaOf(response, "output")));
    return success ? [] : [`${id}: ${z.prettifyError(error)}`];
  });
  expect(wrong).toEqual([]);
});
