import { expect, test } from "vitest";
import { ERRORS } from "../../../src/model/errors.ts";
import type { Outcome } from "../../../src/model/outcome.ts";

type CodeOf<Kind extends Outcome["kind"]> = Extract<Outcome, { kind: Kind; code: string }>["code"];

test("every code an outcome carries is in the catalogue, with the status of its kind", () => {
  const unsendable: Record<CodeOf<"unsendable">, 500> = {
    result_not_json: 500,
    result_too_large: 500,
    app_error: 500,
  };
  const refused: Record<CodeOf<"refused">, 503> = {
    queue_full: 503,
    queue_timeout: 503,
    no_gpu_free: 503,
    app_not_ready: 503,
    draining: 503,
    interrupted: 503,
  };
  for (const [code, status] of Object.entries({ ...unsendable, ...refused })) {
    expect(ERRORS).toHaveProperty(`${code}.status`, status);
  }
});
