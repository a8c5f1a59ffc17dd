import { expect } from "vitest";
import { callHints, sampleIn } from "../../../../src/cli/client/sample-call.ts";
import { appDocument } from "../../../../src/model/app-document.ts";
import type { FunctionSignature, JsonSchema } from "../../../../src/model/app.ts";
import { verifies } from "../../../verifies.ts";

function signature(name: string, required: Record<string, JsonSchema | undefined>): FunctionSignature {
  const parameters = Object.entries(required).map(([of, schema]) => ({
    name: of,
    kind: "named" as const,
    required: true,
    ...(schema && { schema }),
  }));
  return { name, parameters, doc: null, isGenerator: false } as unknown as FunctionSignature;
}

function sampleOf(...functions: FunctionSignature[]) {
  const input = { appName: "app", version: 1, url: "http://x", isPublic: false, ignoresExtra: false };
  return sampleIn(appDocument({ ...input, functions }) as Parameters<typeof sampleIn>[0]);
}

verifies("cli.pastable", "a sample call has a value of its type for each argument that is required", () => {
  const box = { type: "object", required: ["inner"], properties: { inner: { $ref: "#/$defs/In" } } };
  const sample = sampleOf(
    signature("other", {}),
    signature("run", {
      text: { type: "string" },
      count: { type: "integer" },
      share: { type: "number" },
      is: { type: "boolean" },
      list: { type: "array", items: { type: "string" } },
      either: { anyOf: [{ type: "integer" }, { type: "null" }] },
      kind: { enum: ["small", "large"] },
      fixed: { const: 7 },
      unknown: undefined,
      box: {
        ...box,
        $defs: { In: { type: "object", required: ["n"], properties: { n: { type: "number" } } } },
      },
    }),
  );
  expect(sample).toEqual({
    functionName: "run",
    values: {
      text: "text",
      count: 1,
      share: 1,
      is: true,
      list: [],
      either: 1,
      kind: "small",
      fixed: 7,
      unknown: "text",
      box: { inner: { n: 1 } },
    },
  });
  expect(sampleOf(signature("count", { upto: {} }))).toMatchObject({ functionName: "count" });
  expect(sampleOf()).toBeNull();
});

verifies("cli.pastable", "the commands name the function and its arguments, each quoted as needed", () => {
  const app = { name: "app", endpoint: "http://x/v4/p-1/app", serverPath: null, token: "$T" };
  const values = { a: 1, name: "it's", digits: "12" };
  const { url, commands } = callHints({ ...app, sample: { functionName: "count", values } });
  expect(url).toBe("http://x/v4/p-1/app/count");
  expect(commands[0]).toMatch(/ call app count a=1 'name=it'\\''s' 'digits="12"'$/);
  expect(commands[1]).toBe(
    `curl -X POST '${url}' -H "Authorization: Bearer $T" -H 'Content-Type: application/json' ` +
      `-d '{"a":1,"name":"it'\\''s","digits":"12"}'`,
  );
  const unknown = callHints({ ...app, sample: null, options: ["--data-dir", "my data"] });
  expect(unknown.commands[0]).toMatch(/ call app --data-dir 'my data'$/);
});
